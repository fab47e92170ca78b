#!/bin/bash
set -eu
cd /app
ask() {
    for attempt in 1 2 3; do
        status=0
        ./quote "$1" 2> /dev/null || status=$?
        [ "$status" = 75 ] || return 0
    done
}
export -f ask
grep -oE '[a-z]{2}-[0-9]{3}' baskets.txt | sort -u | xargs -P 60 -I{} bash -c 'ask {}' > /tmp/prices
awk 'NR == FNR { price[$1] = $2; next }
    {
        total = missing = 0
        for (i = 2; i <= NF; i++) {
            split($i, part, "x")
            if (part[2] in price) total += part[1] * price[part[2]]; else missing++
        }
        sub(":", "", $1)
        print $1, total, missing
    }' /tmp/prices baskets.txt > totals.txt
