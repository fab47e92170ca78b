#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

share() { # FILE LINES: 33 hundredths for twelve right lines, 20 for ten or eleven
    local expected=() lines=() right=0 i
    mapfile -t expected <<< "$2"
    mapfile -t -n 100 lines <<< "$(text "$1")"
    if [ "${#lines[@]}" = 12 ]; then
        for i in "${!expected[@]}"; do
            [ "${lines[i]}" = "${expected[i]}" ] && right=$((right + 1))
        done
    fi
    case $right in
        12) echo 33 ;;
        11 | 10) echo 20 ;;
        *) echo 0 ;;
    esac
}

main() {
    PATH=/usr/bin:/bin
    local score
    score=$(($(share /app/reviews/finance.csv 'P01,5,accept
P02,6,accept
P03,8,accept
P04,0,reject
P05,8,accept
P06,1,reject
P07,10,accept
P08,5,accept
P09,5,accept
P10,4,reject
P11,4,reject
P12,4,reject') \
        + $(share /app/reviews/operations.csv 'P01,3,reject
P02,4,reject
P03,1,reject
P04,8,accept
P05,8,accept
P06,4,reject
P07,3,reject
P08,8,accept
P09,3,reject
P10,8,accept
P11,1,reject
P12,3,reject') \
        + $(share /app/decisions.csv 'P01,defer
P02,defer
P03,defer
P04,decline
P05,approve
P06,decline
P07,approve
P08,approve
P09,defer
P10,approve
P11,decline
P12,decline')))
    [ "$score" = 99 ] && score=100
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
