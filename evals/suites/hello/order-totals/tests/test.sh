#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local expected='alder,3624 birch,5130 cedar,5345 elm,7760 hazel,4066 maple,3380 rowan,8499 willow,7047'
    local file=/app/totals.csv lines=() right=0 wrong=0 total=8 line
    if [ -f "$file" ] && [ ! -L "$file" ]; then
        mapfile -t -n 1000 lines < "$file"
    fi
    declare -A open
    for line in $expected; do open[$line]=1; done
    for line in "${lines[@]}"; do
        # A line counts once: it is crossed off when it is found.
        if [ -n "$line" ] && [ "${open[$line]:-0}" = 1 ]; then
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
