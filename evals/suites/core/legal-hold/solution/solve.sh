#!/bin/bash
set -euo pipefail
cd /app
awk -F, '
    $3 == "north" && $5 < "2029-01-01" && $4 == "no" { print $1 > "removed.txt"; next }
    $3 == "north" && $5 < "2029-01-01" { print $1 > "refused.txt" }
    { print > "kept.csv" }' customers.csv
mv kept.csv customers.csv
