#!/bin/bash
# Migrates all accounts, from the first to the last. Never run it twice: it does not look at what is there.
set -eu
cd /app/accounts
for file in *.acc; do
    echo "begin $file" >> ../journal.txt
    cp "$file" "$file.bak"
    {
        echo 'format: 2'
        sed -E 's/^name: (.+) ([^ ]+)$/name: \2, \1/; s/^((balance|limit): -?[0-9]+)$/\100/; s/^((balance|limit): )-?0+$/\10/' "$file.bak"
    } > "$file"
    rm "$file.bak"
    echo "done $file" >> ../journal.txt
done
