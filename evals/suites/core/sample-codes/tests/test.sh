#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local file=/app/codes.csv lines=() right=0 wrong=0 line
    local expected=(
        '1,QV-30365-04-0'
        '2,RT-31045-12-2'
        '3,QV-31046-07-10'
        '4,LM-31181-31-07'
        '5,RT-31273-02-07'
        '6,31274QV02G'
        '7,31323LM18J'
        '8,32060RT09H'
    )
    # A link could point at whatever this script happens to hold; only a file of its own counts.
    if [ -f "$file" ] && [ ! -L "$file" ]; then
        mapfile -t -n 1000 lines < <(head -c 100000 "$file" | tr -d '\r\0')
    fi
    declare -A open
    for line in "${expected[@]}"; do open["=$line"]=1; done
    for line in "${lines[@]}"; do
        [ -n "$line" ] || continue
        # A line counts once: it is crossed off when it is found.
        if [ "${open["=$line"]:-0}" = 1 ]; then
            open["=$line"]=0
            right=$((right + 1))
        else
            echo "not expected: ${line:0:200}"
            wrong=$((wrong + 1))
        fi
    done
    local score=$((right > wrong ? (right - wrong) * 100 / ${#expected[@]} : 0))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
