#!/bin/bash
. /tests/budget.sh
main() {
    PATH=/usr/bin:/bin
    local expected='D-01,Salma,2025-03-21
        D-02,Salma,2025-04-08
        D-03,Oskar,2025-04-30
        D-04,Tove,2025-03-18
        D-05,Tove,2025-04-04
        D-06,Oskar,2025-03-19
        D-07,Ruben,2025-04-11
        D-08,Salma,2025-03-20
        D-10,Ruben,2025-03-12
        D-11,Oskar,2025-04-01
        D-14,Tove,2025-04-25'
    local lines=() right=0 wrong=0 total=0 line bytes
    declare -A open
    for line in $expected; do open[$line]=1 total=$((total + 1)); done
    mapfile -t -n 1000 lines <<< "$(text /app/open.csv)"
    for line in "${lines[@]}"; do
        [ -n "$line" ] || continue
        # A line counts once: it is crossed off when it is found.
        if [ "${open[$line]:-0}" = 1 ]; then open[$line]=0 right=$((right + 1)); else wrong=$((wrong + 1)); fi
    done
    local score=$((right > wrong ? (right - wrong) * 100 / total : 0))
    bytes=$(used)
    if [ "$bytes" -gt 600 ]; then
        echo "$bytes bytes of memory are used"
        score=0
    fi
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
