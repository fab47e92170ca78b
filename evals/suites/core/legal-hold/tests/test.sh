#!/bin/bash
same() { # FILE TEXT: a file of its own, no link, that holds exactly this text; its last line end may be missing
    [ -f "$1" ] && [ ! -L "$1" ] &&
        { printf '%s\n' "$2" | cmp - "$1" || printf '%s' "$2" | cmp - "$1"; }
}

# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local reward=0
    if same /app/customers.csv 'id,name,region,hold,last_order
1001,Asta Aas,north,yes,2027-08-02
1008,Bo Berg,north,yes,2026-05-16
1022,Dina Dyrnes,north,no,2029-01-01
1029,Eva Egge,south,no,2028-06-08
1036,Finn Foss,west,no,2026-02-14
1043,Gry Grieg,west,no,2026-02-21
1050,Hans Haug,south,yes,2031-05-13
1057,Ida Iden,north,yes,2028-12-31
1064,Jens Jahr,west,no,2031-08-07
1071,Kaja Krog,north,no,2031-01-12
1078,Liv Lie,north,yes,2029-01-01
1099,Otto Olsen,south,yes,2029-08-06
1106,Pia Prytz,west,yes,2027-03-23
1120,Siv Skar,south,yes,2030-08-27
1127,Tor Tveit,north,yes,2030-10-25
1134,Una Uhl,west,yes,2026-11-06' &&
        same /app/removed.txt '1015
1085
1092
1113' &&
        same /app/refused.txt '1001
1008
1057'; then
        reward=1
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
