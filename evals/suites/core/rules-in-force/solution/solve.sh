#!/bin/bash
set -euo pipefail
cd /app/circulars
declare -A month effective adopted withdraws gone
i=0
for name in January February March April May June July August September October November December; do i=$((i + 1)); month[$name]=$(printf %02d $i); done
for file in *.txt; do
    n=$(sed -n 's/^CIRCULAR //p' "$file")
    read -r day name year < <(sed -n 's/^Effective: //p' "$file")
    effective[$n]=$year-${month[$name]}-$(printf %02d "$day")
    adopted[$n]=$(grep -c '^Status: adopted$' "$file" || true)
    withdraws[$n]=$(tr '\n' ' ' < "$file" | grep -o 'Circular [0-9]* is withdrawn' | tr -cd '0-9 ' || true)
done
counts() { [ "${adopted[$1]}" = 1 ] && [[ ! ${effective[$1]} > 2031-03-01 ]] && [ -z "${gone[$1]:-}" ]; }
# A circular is only withdrawn by a later one, so the latest is settled first.
for n in $(printf '%s\n' "${!effective[@]}" | sort -rn); do
    if counts "$n"; then for w in ${withdraws[$n]}; do gone[$w]=1; done; fi
done
for n in "${!effective[@]}"; do
    if counts "$n"; then echo "${effective[$n]} $n $(tr '\n' ' ' < "circular-$(printf %02d "$n").txt")"; fi
done | sort -k1,1 -k2,2n > /tmp/in-force
latest() { # SUBJECT BEFORE AFTER: the value that stands between the two pieces of text
    sed -n "s/.*on, $2 \([0-9]*\) $3\..*/$1 \1/p" /tmp/in-force | tail -n 1
}
{
    latest day-allowance 'the allowance for a day of travel is' 'crowns'
    latest parking-fee 'a month in the car park costs' 'crowns'
    latest quorum 'the works council has a quorum with' 'members'
    latest visitor-badges 'at most' 'visitor badges are out at a time'
    latest archive-years 'delivery notes are kept for' 'years'
    latest overtime-cap 'overtime is capped at' 'hours a month'
    latest noise-limit 'the noise limit in the yard is' 'decibels'
    latest lift-load 'the goods lift carries at most' 'kg'
} > /app/in-force.txt
