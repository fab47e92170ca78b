#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local expected file=/app/report.tsv lines=() right=0 wrong=0 total=8 line
    # Name, rows, sum, median and largest value; a bar stands for the tab.
    expected=$(tr '|' '\t' << 'END'
boiler|179|14116.48|79.67|198.79
inlet; left|148|12353.04|95.81|196.36
north wall|184|12776.99|66.35|196.63
outlet|154|11072.29|72.36|196.38
shaft 3, lower|142|10564.39|73.98|199.60
shaft 3, upper|148|11398.93|75.74|199.45
south wall|158|10620.04|66.62|198.69
the "old" pump|157|11868.57|77.45|198.21
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
