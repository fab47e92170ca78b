#!/bin/bash
set -eu
cat > /app/merge.sh <<'SCRIPT'
#!/bin/bash
export LC_ALL=C
lines=$(grep -v '^$')
[ -n "$lines" ] || exit 0
grep -qvE '^-?[0-9]+ +-?[0-9]+$' <<< "$lines" && exit 2
awk '$1 > $2 { exit 1 }' <<< "$lines" || exit 2
sort -k1,1n <<< "$lines" | awk '
    NR > 1 && $1 <= end + 1 { if ($2 > end) end = $2; next }
    NR > 1 { print start, end }
    { start = $1 + 0; end = $2 + 0 }
    END { print start, end }'
SCRIPT
