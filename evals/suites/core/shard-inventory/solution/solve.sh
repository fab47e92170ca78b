#!/bin/bash
set -euo pipefail
mkdir -p /app/stock
cd /app/warehouses
for warehouse in *; do
    awk -F'[, ]' '
        FNR == NR { if (FNR > 1) stock[$1] = $2; next }
        $2 == "in" || $2 == "found" { stock[$3] += $4 }
        $2 == "out" || $2 == "lost" { stock[$3] -= $4 }
        $2 == "count" { stock[$3] = $4 }
        END { for (item in stock) if (stock[item] > 0) print item "," stock[item] }
    ' "$warehouse/opening.csv" "$warehouse/moves.log" | sort > "/app/stock/$warehouse.csv"
done
cat /app/stock/*.csv | awk -F, '
    FNR == NR { total[$1] += $2; next }
    FNR > 1 && total[$1] + 0 < $2 { print $1 "," total[$1] + 0 "," $2 }
' - /app/minimum.csv | sort > /app/shortage.csv
