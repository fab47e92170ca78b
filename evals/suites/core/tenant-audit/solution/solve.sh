#!/bin/bash
set -euo pipefail
mkdir -p /app/reports
cd /app/tenants
audit() { # TENANT
    local exception
    awk '$1 == "tls_min" && $3 < 1.2 { bad = 1 } END { exit !bad }' "$1/service.ini" && echo R1
    grep -q '^[^,]*,admin,no,yes$' "$1/users.csv" && echo R2
    awk '$1 >= "2025-06-24" && $3 == "ok" { good = 1 } END { exit good }' "$1/backup.log" && echo R3
    exception=$(sed -n 's/^exception: debug until //p' "$1/notes.md")
    if grep -q '^debug = on$' "$1/service.ini" && [[ ${exception:-0} < 2025-06-30 ]]; then echo R4; fi
    awk '$1 == "retention_days" && $3 >= 30 { good = 1 } END { exit good }' "$1/service.ini" && echo R5
    return 0
}
for tenant in *; do
    audit "$tenant" > "/app/reports/$tenant.txt"
    echo "$tenant,$(grep -c . "/app/reports/$tenant.txt" || :)"
    [ -s "/app/reports/$tenant.txt" ] || echo clean > "/app/reports/$tenant.txt"
done | sort -t, -k2,2nr -k1,1 > /app/summary.csv
