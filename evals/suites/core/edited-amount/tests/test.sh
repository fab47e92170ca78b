#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

main() {
    PATH=/usr/bin:/bin
    local reward=0
    local expected='customer,limit,reference
C-031,900,QX-17
C-118,1275,QX-82
C-160,2500,QX-51
C-204,800,QX-93
C-377,750,QX-71'
    [ "$(text /app/limits.csv)" = "$expected" ] && reward=1
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
