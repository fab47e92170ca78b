#!/bin/bash
same() { # FILE TEXT: a file of its own, no link, that holds exactly this text; its last line end may be missing
    [ -f "$1" ] && [ ! -L "$1" ] &&
        { printf '%s\n' "$2" | cmp - "$1" || printf '%s' "$2" | cmp - "$1"; }
}

# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local reward=0
    if same /app/labels.txt 'K001 crank *4893
K002 gear wheel *5397
K003 lamp *4730
M001 belt *9895
M002 felt ring *5836
M003 hinge *9965
T001 axle *7660
T002 screw m4 *6648
T003 washer *3570
== 9 labels, 68297 =='; then
        reward=1
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
