#!/bin/bash
set -euo pipefail
{
    echo 'dato; genstand; laengde_m; vaegt_kg'
    tail -n +2 /app/finds.csv | awk -F'[/,]' '
        { printf "%s-%s-%s; %s; %.2f; %.2f\n", $3, $1, $2, $4, $5 * 0.3048, $6 * 0.45359237 }' | tr . , | sort
} > /app/table.txt
