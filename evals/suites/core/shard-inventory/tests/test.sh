#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

main() {
    PATH=/usr/bin:/bin
    local right=0
    right_stock() { # WAREHOUSE LINES
        if [ "$(text "/app/stock/$1.csv")" = "$2" ]; then right=$((right + 1)); else echo "wrong: $1"; fi
    }
    right_stock aalborg 'anchor,39
buoy,49
compass,42
flare,25
lantern,40
oar,20
rope,68'
    right_stock bergen 'anchor,69
buoy,54
dinghy,49
lantern,7
oar,9
rope,37'
    right_stock cork 'anchor,43
buoy,18
compass,44
flare,41
lantern,10
oar,16
rope,64'
    right_stock dundee 'anchor,36
buoy,55
compass,25
dinghy,55
flare,56
lantern,15
oar,25
rope,46'
    right_stock esbjerg 'anchor,39
buoy,49
compass,36
dinghy,18
flare,29
lantern,48
oar,20
rope,54'
    right_stock faro 'anchor,39
buoy,47
compass,30
dinghy,55
flare,28
lantern,3
oar,39
rope,6'
    if [ "$(text /app/shortage.csv)" = 'anchor,265,266
buoy,272,273
flare,179,204
lantern,123,132
oar,129,154
rope,275,276' ]; then right=$((right + 4)); else echo 'wrong: the shortage'; fi
    printf '%d.%d\n' $((right / 10)) $((right % 10)) > /logs/verifier/reward.txt
    exit 0
}
main
