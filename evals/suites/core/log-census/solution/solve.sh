#!/bin/bash
set -euo pipefail
cd /app
# One line for each event: seconds, gate, user, result, reason.
cat logs/*.log | awk '
    /^[0-9]/ { if (line != "") print line; split($1, t, ":"); split($3, g, "="); split($4, u, "="); split($5, r, "=")
               line = $2 " " t[1] * 3600 + t[2] * 60 + t[3] " " g[2] " " u[2] " " r[2] }
    /^ *reason: / { sub(/^ *reason: /, ""); gsub(/ /, "-"); line = line " " $0 }
    END { print line }' | sort -u | sort -n -k2,2 > /tmp/events
awk '
    { n++
      if (($4 in last) && $5 == "granted" && $2 - last[$4] <= 900) recovered++
      delete last[$4] }
    $5 == "denied" { denied++; gates[$3]++; users[$4] = 1; last[$4] = $2 }
    $6 == "wrong-zone" { zone[$4]++ }
    END {
        for (u in users) different++
        for (g in gates) if (gates[g] > gates[gate]) gate = g
        for (z in zone) if (zone[z] > zone[worst]) worst = z
        print "events " n; print "denied " denied; print "gate " gate
        print "users-denied " different; print "wrong-zone " worst; print "recovered " recovered
    }' /tmp/events > census.txt
