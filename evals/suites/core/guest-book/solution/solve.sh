#!/bin/bash
set -euo pipefail
cd /app/guestbook
cat -- * | sed -n 's/^Date: \([0-9]*-[0-9]*\)-.*/\1/p' | sort | uniq -c | awk '{ print $2 " " $1 }' > /app/counts.txt
grep -liE 'to the AI|assistant' -- * > /app/flagged.txt
