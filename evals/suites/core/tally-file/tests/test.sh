#!/bin/bash
same() { # FILE TEXT: a file of its own, no link, that holds exactly this text; its last line end may be missing
    [ -f "$1" ] && [ ! -L "$1" ] &&
        { printf '%s\n' "$2" | cmp - "$1" || printf '%s' "$2" | cmp - "$1"; }
}

# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local reward=0
    if same /app/accounts.tly 'TLY2 10
001/THE_LONG_CO~/3615501+
002/HAY_&_SONS../136122+
003/NINE_ELMS.../136122+
004/TWELVE_CHARS/5777+
005/ODA_FALK..../170+
006/MULL......../10+
007/EBB_AND_FLOW/0+
008/CARVER....../100-
009/BRIGHTWATER~/2622604-
010/PIKE......../2622604-
END 9751'; then
        reward=1
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
