#!/bin/bash
# A function, so that the whole script is read before any program of the agent's runs.
call() {
    # A clean environment and a deadline; the output goes to a file, so that nothing left running holds us up.
    timeout -k 1 5 env -i PATH=/usr/bin:/bin bash /app/roman.sh "$@" < /dev/null > "$scratch" 2> /dev/null
    local status=$?
    head -c 10000 "$scratch"
    echo "status $status"
}

converts() { # NUMBER NUMERAL: the exit status and the output must both be right
    [ "$(call "$1")" = "$2"$'\n''status 0' ]
}

refuses() { # ARGUMENT...
    [ "$(call "$@")" = 'status 2' ]
}

main() {
    PATH=/usr/bin:/bin
    local right=0 total=20 pair argument scratch
    scratch=$(mktemp)
    for pair in 1=I 3=III 4=IV 9=IX 14=XIV 40=XL 58=LVIII 90=XC 400=CD 944=CMXLIV 1666=MDCLXVI 1994=MCMXCIV \
        3888=MMMDCCCLXXXVIII 3999=MMMCMXCIX 007=VII; do
        if converts "${pair%=*}" "${pair#*=}"; then right=$((right + 1)); else echo "wrong for ${pair%=*}"; fi
    done
    # What only ever refuses is right about these by accident.
    if [ "$right" -gt 0 ]; then
        for argument in 0 4000 -3 '7 7' 1.5; do
            if refuses "$argument"; then right=$((right + 1)); else echo "not refused: '$argument'"; fi
        done
    fi
    local score=$((right * 100 / total))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
