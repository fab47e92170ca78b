#!/bin/bash
set -eu
fixed=$(mktemp)
sed '/^-- begin batch 1742 --$/,/^-- end batch 1742 --$/s/;USD;/;CAD;/' /app/log/bookings.log > "$fixed"
# Written into the file that is there, so that it stays the one that both names lead to.
cat "$fixed" > /app/log/bookings.log
rm "$fixed"
