#!/bin/bash
set -euo pipefail
cd /app
label=/skills/shelf-labels/scripts
tail -n +2 items.csv | LC_ALL=C sort | while IFS=, read -r item pieces; do
    if [ "$pieces" -lt 20 ]; then echo "K,$item"; elif [ "$pieces" -lt 100 ]; then echo "M,$item"; else echo "T,$item"; fi
done | LC_ALL=C sort -s -t, -k1,1 > /tmp/zones
number=0 last=
while IFS=, read -r zone item; do
    [ "$zone" = "$last" ] || number=0
    number=$((number + 1)) last=$zone
    bash "$label/label.sh" "$zone" "$number" "$item"
done < /tmp/zones > labels.txt
bash "$label/close.sh" labels.txt
