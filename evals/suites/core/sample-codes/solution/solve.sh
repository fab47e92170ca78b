#!/bin/bash
set -euo pipefail
letters=ABCDEFGHJKMNP
tail -n +2 /app/samples.csv | while IFS=, read -r id site date number; do
    day=$(date -d "$date" +%y%j) nn=$(printf %02d "$number")
    digits=$day$nn sum=0
    for ((i = 0; i < 7; i++)); do sum=$((sum + ${digits:i:1})); done
    if [[ $date < 2031-02-15 ]]; then
        echo "$id,$site-$day-$nn-$((sum % 7))"
    elif [[ $date < 2031-10-01 ]]; then
        echo "$id,$site-$day-$nn-$(printf %02d $((sum % 11)))"
    else
        echo "$id,$day$site$nn${letters:sum % 13:1}"
    fi
done > /app/codes.csv
