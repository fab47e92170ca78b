#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

main() {
    PATH=/usr/bin:/bin
    local reward=0 expected='Rota week 23
Monday Asta
Tuesday Caro
Wednesday Dag
Thursday Dag
Friday Elin'
    [ "$(text /app/rota.txt)" = "$expected" ] && reward=1
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
