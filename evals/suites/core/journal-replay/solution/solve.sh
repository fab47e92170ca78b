#!/bin/bash
set -eu
export LC_ALL=C
cd /app/store
for file in state.1 state.2 state.3; do
    sum=$(sed '$d' "$file" | cksum)
    [ "check ${sum%% *}" = "$(tail -n 1 "$file")" ] && newest=$file
done
declare -A entry value
while IFS= read -r line; do
    text=${line% #*}
    sum=$(printf %s "$text" | cksum)
    [ "$line" = "$text #${sum%% *}" ] && entry[${text%% *}]=${text#* }
done < journal
while IFS= read -r line; do
    case $line in
        'seq '*) seq=${line#seq } ;;
        *' = '*) value[${line%% = *}]=${line#* = } ;;
    esac
done < "$newest"
while [ -n "${entry[$((seq + 1))]:-}" ]; do
    seq=$((seq + 1))
    read -r operation key rest <<< "${entry[$seq]}"
    case $operation in
        set) value[$key]=$rest ;;
        del) unset "value[$key]" ;;
        add) value[$key]=$((${value[$key]:-0} + rest)) ;;
    esac
done
{
    echo "seq $seq"
    for key in "${!value[@]}"; do echo "$key = ${value[$key]}"; done | sort
} > /tmp/state
sum=$(cksum < /tmp/state)
{ cat /tmp/state; echo "check ${sum%% *}"; } > state
