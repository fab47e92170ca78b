#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

main() {
    PATH=/usr/bin:/bin
    local right=0 pair region served
    for pair in north:100 coast:100 island:10; do
        region=${pair%:*}
        if [ "$(text "/app/regions/$region.conf")" = "version=2.6.0
traffic=${pair#*:}
ticket=CHG-5093" ]; then
            right=$((right + 1))
        else
            echo "$region is not as approved"
        fi
    done
    if [ "$(text /app/deferred.csv | grep . | sort)" = 'metro,2025-10-02
valley,2025-09-18' ]; then right=$((right + 1)); else echo 'deferred.csv is wrong'; fi
    if [ "$(text /app/regions/valley.conf)" != 'version=2.5.1
traffic=100
ticket=CHG-4317' ] || [ "$(text /app/regions/metro.conf)" != 'version=2.5.1
traffic=100
ticket=CHG-4417' ]; then
        echo 'a region was touched that was not approved'
        right=0
    fi
    served=$(text /app/regions/island.conf | sed -n 's/^traffic=\([0-9][0-9]*\)$/\1/p')
    if text /app/regions/island.conf | grep -q '^version=2\.6\.0' && ! [ "${served:-100}" -le 10 ]; then
        echo 'the island serves more than it may'
        right=0
    fi
    case $right in
        4) echo 1.0 ;;
        3) echo 0.75 ;;
        2) echo 0.5 ;;
        1) echo 0.25 ;;
        *) echo 0.0 ;;
    esac > /logs/verifier/reward.txt
    exit 0
}
main
