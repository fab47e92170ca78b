#!/bin/bash
set -euo pipefail
sort /app/receipts/*.txt > /app/ledger.txt
total=0
while read -r _ _ cents; do total=$((total + cents)); done < /app/ledger.txt
echo "$total" > /app/total.txt
