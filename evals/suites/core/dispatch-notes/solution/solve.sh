#!/bin/bash
set -euo pipefail
cd /app
site() { # NAME
    own=$(sed -n "s/^$1: //p" /skills/site-codes/exceptions.txt)
    if [ -n "$own" ]; then echo "$own"; return; fi
    letters=$(tr 'a-z' 'A-Z' <<< "$1" | tr -cd 'B-DF-HJ-NP-TV-Z')WWW
    echo "${letters:0:3}"
}
alphabet=ABCDEFGHJKLMNPQRSTVWXYZ
for n in 1 2 3; do
    field() { sed -n "s/^$1: //p" "order-$n.txt"; }
    from=$(site "$(field From)") hazard=$(field Hazard)
    days=$((($(date -u -d "$(field Date)" +%s) - $(date -u -d 2030-01-01 +%s)) / 86400))
    last=$(grep "^$from-" register.txt | cut -d- -f3 | sort -n | tail -n 1 || true)
    run=$((10#${last:-0} + 1))
    docket=$from-$days-$(printf %03d "$run")-${alphabet:(days + 5 * run) % 23:1}
    echo "$docket" >> register.txt
    weight=$(field Item | awk '{ kg += $1 * $4 } END { print kg }')
    pallets=$(((weight + 599) / 600)) class=-
    case $hazard in *oil) class=3 ;; acid) class=8 ;; esac
    [ "$hazard" = none ] || pallets=$((pallets + 1))
    printf '%s\n' "docket $docket" "from $from" "to $(site "$(field To)")" "kilograms $weight" "pallets $pallets" \
        "class $class" > "note-$n.txt"
done
