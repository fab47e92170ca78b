#!/bin/bash
set -euo pipefail
cd /app
export LC_ALL=C
seq=0 sum=0
tail -n +2 accounts.csv | sort -t, -k2,2nr -k1,1 > /tmp/records
{
    echo "TLY2 $(wc -l < /tmp/records)"
    while IFS=, read -r name cents; do
        seq=$((seq + 1)) sum=$((sum + seq * cents)) sign=+
        name=$(tr 'a-z' 'A-Z' <<< "$name")
        [ "${#name}" -le 12 ] || name=${name:0:11}\~
        name=$(printf '%-12s' "${name// /_}")
        [ "$cents" -ge 0 ] || sign=-
        printf '%03d/%s/%o%s\n' "$seq" "${name// /.}" "${cents#-}" "$sign"
    done < /tmp/records
    printf 'END %04d\n' $(((sum % 9973 + 9973) % 9973))
} > accounts.tly
