#!/bin/bash
set -eu
cd /app/accounts
complete() { # FILE: ends with a line break, and has all that an account has
    [ "$(tail -c 1 "$1" | od -An -c | tr -d ' ')" = '\n' ] && grep -q '^balance:' "$1" && grep -q '^limit:' "$1" \
        && grep -q '^name:' "$1" && grep -q '^note:' "$1"
}
for file in *.acc; do
    if [ -e "$file.bak" ]; then
        complete "$file" || cp "$file.bak" "$file"
        rm "$file.bak"
    fi
    [ "$(head -n 1 "$file")" = 'format: 2' ] && continue
    fixed=$(mktemp)
    {
        echo 'format: 2'
        perl -pe 's/^name: (.+) (\S+)$/name: $2, $1/; s/^(balance|limit): (-?\d+)$/"$1: " . $2 * 100/e' "$file"
    } > "$fixed"
    cat "$fixed" > "$file"
    rm "$fixed"
done
