#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local expected file=/app/orders.csv lines=() right=0 wrong=0 total=16 line
    expected=$(cat << 'END'
004898,blue lever,14
009916,green valve,1
008687,blue clamp,9
004141,green bolt,25
008704,steel wedge,1
009863,blue plate,4
007506,green clamp,16
004799,brass bolt,9
009571,red clamp,1
001248,brass plate,3
003611,brass valve,25
001701,red valve,25
005935,steel plate,3
001508,brass hinge,25
005414,green wedge,3
008745,oak lever,9
END
    )
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
