#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local file=/app/report.txt lines=() right=0 wrong=0 line
    local expected=(
        'incident INC-4471'
        'began 2031-05-14T13:09:17Z'
        'opened 2031-05-14T13:27:33Z'
        'recovered 2031-05-14T14:30:17Z'
        'closed 2031-05-14T14:57:49Z'
        'affected cart,checkout,ledger'
        'peak 41.7%'
        'cause CH-8812'
        'fix CH-8822'
        'fixed-by suri'
        'minutes 108'
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
