#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin LC_ALL=C
    local expected='attic 21.5|barn 8.0|cellar failed 3|dock timeout|engine 17.25|forge timeout|garage timeout|hall 19.0'
    expected+='|ice -12.75|jetty timeout|kiln failed 139'
    local file=/app/readings.txt lines=() right=0 wrong=0 total=11 line each
    if [ -f "$file" ] && [ ! -L "$file" ]; then
        mapfile -t -n 1000 lines < <(head -c 100000 "$file" | tr -d '\r\0')
        grep . "$file" | sort -c || wrong=1
    fi
    declare -A open
    IFS='|' read -ra each <<< "$expected"
    for line in "${each[@]}"; do open[$line]=1; done
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
