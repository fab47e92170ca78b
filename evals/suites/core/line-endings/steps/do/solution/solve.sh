#!/bin/bash
set -eu
find /app/docs -type f -name '*.txt' -exec grep -lZ $'\r$' {} + | while IFS= read -r -d '' file; do
    grep -q $'\r$' "$file" || continue
    mode=$(stat -c %a "$file")
    fixed=$(mktemp)
    perl -0777 -pe 's/\r\n/\n/g' "$file" > "$fixed"
    cmp -s "$fixed" "$file" || cat "$fixed" > "$file"
    rm -f "$fixed"
    chmod "$mode" "$file"
done
