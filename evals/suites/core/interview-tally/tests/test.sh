#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

main() {
    PATH=/usr/bin:/bin
    local expected='01,Wiki,4
        02,Wiki,4
        03,Tracker,6
        04,Planner,6
        05,Mailer,5
        06,Vault,7
        07,Vault,5
        08,Tracker,3
        09,Chat,4
        10,Wiki,11
        11,Mailer,3
        12,Mailer,7
        13,Tracker,9
        14,Vault,5
        15,Wiki,4
        16,Tracker,11'
    local lines=() right=0 wrong=0 score line
    declare -A open
    for line in $expected; do open[$line]=1; done
    mapfile -t -n 1000 lines <<< "$(text /app/answers.csv)"
    for line in "${lines[@]}"; do
        [ -n "$line" ] || continue
        # A line counts once: it is crossed off when it is found.
        if [ "${open[$line]:-0}" = 1 ]; then open[$line]=0 right=$((right + 1)); else wrong=$((wrong + 1)); fi
    done
    score=$((right > wrong ? (right - wrong) * 5 : 0))
    [ "$(text /app/tally.csv)" = 'Tracker,4,29
Wiki,4,23
Mailer,3,15
Vault,3,17
Chat,1,4
Planner,1,6' ] && score=$((score + 20))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
