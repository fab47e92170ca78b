#!/bin/bash
set -euo pipefail
declare -A total
while IFS=, read -r _ customer quantity cents; do
    total[$customer]=$((${total[$customer]:-0} + quantity * cents))
done < <(tail -n +2 /app/orders.csv)
for customer in "${!total[@]}"; do
    echo "$customer,${total[$customer]}"
done | sort > /app/totals.csv
