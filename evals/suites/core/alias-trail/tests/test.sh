#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local file=/app/decisions.txt lines=() right=0 wrong=0 line
    local expected=(
        'name Dunlin'
        'port 7455'
        'port-by Sun-hee Park'
        'backup-days 35'
        'deploy-day Wednesday'
        'deploy-by Teodora Vance'
        'database fern'
        'database-by Teo Vidal'
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
