#!/bin/bash
# Adds the batches in /app/spool to /app/var/table.tsv, oldest number first, and removes each that is in.
cd /app/var 2> /dev/null || { echo "import: disk full" >&2; exit 1; }
stop() { [ -n "$mine" ] && rm -rf lock; echo "import: disk full" >&2; exit 1; }
mine=
mkdir lock 2> /dev/null || stop
mine=yes
echo $$ > lock/pid
for batch in /app/spool/batch-*.tsv; do
    [ -e "$batch" ] || break
    sort -n "$batch" > tmp/sorted 2> /dev/null || stop
    cat table.tsv tmp/sorted 2> /dev/null > table.new || stop
    # The table's last line counts the rows, and who reads it relies on that.
    { grep -v '^# rows' table.new; echo "# rows $(grep -vc '^# rows' table.new)"; } > tmp/counted 2> /dev/null || stop
    mv -T tmp/counted table.tsv 2> /dev/null || stop
    rm -f table.new "$batch"
done
rm -rf lock
echo "import: done"
