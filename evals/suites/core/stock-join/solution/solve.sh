#!/bin/bash
set -eu
cd /app/data
awk '
    FILENAME == "articles.txt" && FNR > 1 {
        name[substr($0, 1, 6)] = substr($0, 9, 20)
        sub(/ +$/, "", name[substr($0, 1, 6)])
    }
    FILENAME == "movements.tsv" && FNR > 1 { stock[sprintf("%06d", $2)] += $3 }
    FILENAME == "limits.jsonl" {
        match($0, /"article": "[0-9]+"/)
        article = substr($0, RSTART + 12, 6)
        match($0, /"min": [0-9]+/)
        min = substr($0, RSTART + 7, RLENGTH - 7) + 0
        if (stock[article] + 0 < min) print article "," name[article] "," min - stock[article]
    }' articles.txt movements.tsv limits.jsonl > /app/orders.csv
