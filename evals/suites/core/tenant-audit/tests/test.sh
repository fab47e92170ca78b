#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

main() {
    PATH=/usr/bin:/bin
    local score=0 right=0 wrong=0
    report() { # TENANT RULE...
        local tenant=$1
        shift
        if [ "$(text "/app/reports/$tenant.txt")" = "$(printf '%s\n' "$@")" ]; then
            [ "$1" = clean ] || right=$((right + 1))
        else
            echo "wrong: $tenant"
            [ "$1" != clean ] || wrong=$((wrong + 1))
        fi
    }
    report acorn clean
    report beacon R1
    report cinder R2 R4
    report drift R3
    report ember R1 R2 R5
    report fjord R4
    report grove R5
    report harbor clean
    report islet R2 R3 R4 R5
    report juniper R1 R3
    report kelp R2
    report lagoon R3 R5
    [ "$right" -gt "$wrong" ] && score=$(((right - wrong) * 75 / 10))
    if [ "$(text /app/summary.csv)" = 'islet,4
ember,3
cinder,2
juniper,2
lagoon,2
beacon,1
drift,1
fjord,1
grove,1
kelp,1
acorn,0
harbor,0' ]; then score=$((score + 25)); else echo 'wrong: the summary'; fi
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
