#!/bin/bash
set -euo pipefail
names=$(tail -n +2 /app/cities.csv | awk -F, '$3 > 500000 { print $3 "," $1 }' | sort -rn | cut -d, -f2 | tr 'a-z' 'A-Z')
printf -- '-- RECORDS OFFICE --\n\n%s\n\nTOTAL: %d\n' "$names" "$(wc -l <<< "$names")" > /app/large.txt
