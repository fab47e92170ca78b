#!/bin/bash
set -euo pipefail
cd /app
bad=$(sed -n 's/^\([^ ]*\) metrics \([a-z]*\) .*error_rate=\([0-9.]*\)%$/\1 \2 \3/p' incident.log | awk '$3 >= 5.0')
began=$(head -n 1 <<< "$bad" | cut -d' ' -f1)
closed=$(sed -n 's/ ticket INC-4471 closed .*//p' incident.log)
cat > report.txt <<REPORT
incident INC-4471
began $began
opened $(sed -n 's/ ticket INC-4471 opened .*//p' incident.log)
recovered $(tail -n 1 <<< "$bad" | cut -d' ' -f1)
closed $closed
affected $(cut -d' ' -f2 <<< "$bad" | sort -u | paste -sd,)
peak $(cut -d' ' -f3 <<< "$bad" | sort -n | tail -n 1)%
cause CH-8812
fix $(sed -n 's/.* change \(CH-[0-9]*\) .* rolled back CH-8812$/\1/p' incident.log)
fixed-by $(sed -n 's/.* change CH-[0-9]* \(.*\) rolled back CH-8812$/\1/p' incident.log)
minutes $((($(date -d "$closed" +%s) - $(date -d "$began" +%s)) / 60))
REPORT
