#!/bin/bash
set -euo pipefail
place() { printf '%d' $(($(printf '%d' "'$1") - 64)); }
for file in /app/outbox/*.txt; do
    field() { sed -n "s/^$1: //p" "$file"; }
    number=$(field Number) buyer=$(field Buyer) cents=$(field 'Total in cents')
    case $(field Kind):$buyer in
        pro*) seal=none ;;
        credit*) seal=C$(rev <<< "$number")-$(printf %02d $((cents % 89))) ;;
        *:DK) seal=D$(printf %03d $(((number * 7 + cents) % 997))) ;;
        *:NO | *:IS | *:EE)
            places=$(($(place "${buyer:0:1}") * 26 + $(place "${buyer:1:1}")))
            seal=U$buyer$(printf %03d $(((number + places) % 1000)))
            ;;
        *)
            digits=0
            for ((i = 0; i < ${#cents}; i++)); do digits=$((digits + ${cents:i:1})); done
            seal=X$(printf %04d $(((digits * 31 + number) % 9973)))${buyer:0:1}
            ;;
    esac
    echo "Seal: $seal" >> "$file"
done
