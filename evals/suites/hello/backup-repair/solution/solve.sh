#!/bin/bash
set -euo pipefail
cd /app/backup
: > /app/journal.txt
while read -r sum part; do
    for copy in disk-?/"$part"; do
        if [ "$(sha256sum < "$copy")" = "$sum  -" ]; then
            cat "$copy" >> /app/journal.txt
            break
        fi
    done
done < SHA256SUMS
