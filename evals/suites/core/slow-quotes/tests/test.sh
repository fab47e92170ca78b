#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local expected='amber 1510050 2
basil 1149383 1
cobalt 1023710 2
dune 1402594 0
ember 1331597 0
fern 1161890 1
grove 546877 3
hazel 989448 1'
    local file=/app/totals.txt lines=() right=0 wrong=0 total=8 line
    if [ -f "$file" ] && [ ! -L "$file" ]; then
        mapfile -t -n 1000 lines < <(head -c 100000 "$file" | tr -d '\r\0')
    fi
    declare -A open
    while IFS= read -r line; do open[$line]=1; done <<< "$expected"
    for line in "${lines[@]}"; do
        [ -n "$line" ] || continue
        # A line counts once: it is crossed off when it is found.
        if [ "${open[$line]:-0}" = 1 ]; then
            open[$line]=0
            right=$((right + 1))
        else
            wrong=$((wrong + 1))
        fi
    done
    local score=$((right > wrong ? (right - wrong) * 100 / total : 0))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
