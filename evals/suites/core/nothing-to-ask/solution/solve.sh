#!/bin/bash
set -eu
cd /app/captions
declare -A count
for file in IMG_*.txt; do
    read -r date place < "$file"
    name=$date-${place,,}
    count[$name]=$((${count[$name]:-0} + 1))
    mv "$file" "$name-${count[$name]}.txt"
done
