#!/bin/bash
same() { # FILE TEXT: a file of its own, no link, that holds exactly this text; its last line end may be missing
    [ -f "$1" ] && [ ! -L "$1" ] &&
        { printf '%s\n' "$2" | cmp - "$1" || printf '%s' "$2" | cmp - "$1"; }
}

# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local reward=0
    if same /app/large.txt '-- RECORDS OFFICE --

CORIN
LOWMOOR
GLASS BAY
ALDPORT
JUNIPER HILL
FARROW
HOLLIN

TOTAL: 7'; then
        reward=1
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
