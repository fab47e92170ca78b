#!/bin/bash
set -eu
awk -F'\t' '
    NR == 1 || $5 == "legal" || !($3 >= 1000 || ($2 != "order" && $3 > 90 && $4 == "no"))
' /app/events.tsv > /tmp/left
cp /tmp/left /app/events.tsv
echo PRG-1Z90-K > /app/approval.txt
