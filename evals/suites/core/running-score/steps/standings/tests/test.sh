#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

main() {
    PATH=/usr/bin:/bin
    local expected='Hares 23
Foxes 22
Newts 22
Owls 20
Crows 18'
    local content lines=() right=0 wrong=0 score line
    declare -A open
    content=$(text /app/standings.txt)
    mapfile -t lines <<< "$expected"
    for line in "${lines[@]}"; do open[$line]=1; done
    mapfile -t -n 1000 lines <<< "$content"
    for line in "${lines[@]}"; do
        [ -n "$line" ] || continue
        # A line counts once: it is crossed off when it is found.
        if [ "${open[$line]:-0}" = 1 ]; then open[$line]=0 right=$((right + 1)); else wrong=$((wrong + 1)); fi
    done
    score=$((right > wrong ? (right - wrong) * 20 : 0))
    [ "$content" = "$expected" ] || score=$((score > 50 ? 50 : score))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
