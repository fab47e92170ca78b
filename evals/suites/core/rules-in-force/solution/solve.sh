#!/bin/bash
set -euo pipefail
cd /app/circulars
# The circulars that count, oldest effective date first. One is only withdrawn by a later one, so the latest comes first.
awk '
    BEGIN { for (i = split("January February March April May June July August September October November December", name); i > 0; i--) month[name[i]] = i }
    FNR == 1 { n = $2; numbers[++count] = n }
    /^Effective: / { effective[n] = sprintf("%d-%02d-%02d", $4, month[$3], $2) }
    /^Status: adopted$/ { adopted[n] = 1 }
    FNR > 5 { text[n] = text[n] " " $0 }
    END {
        for (i = count; i > 0; i--) {
            n = numbers[i]
            if (!adopted[n] || effective[n] > "2031-03-01" || gone[n]) continue
            if (match(text[n], /Circular [0-9]+ is withdrawn/)) {
                split(substr(text[n], RSTART), word, " ")
                gone[word[2]] = 1
            }
            print effective[n], n, text[n]
        }
    }' circular-*.txt | sort -k1,1 -k2,2n > /tmp/counting
value() { printf 'h; s/.*on, %s \([0-9]*\) %s\..*/%s \1/p; g
' "$2" "$3" "$1"; } # SUBJECT BEFORE AFTER
{
    value day-allowance 'the allowance for a day of travel is' 'crowns'
    value parking-fee 'a month in the car park costs' 'crowns'
    value quorum 'the works council has a quorum with' 'members'
    value visitor-badges 'at most' 'visitor badges are out at a time'
    value archive-years 'delivery notes are kept for' 'years'
    value overtime-cap 'overtime is capped at' 'hours a month'
    value noise-limit 'the noise limit in the yard is' 'decibels'
    value lift-load 'the goods lift carries at most' 'kg'
} > /tmp/values
sed -n -f /tmp/values /tmp/counting | awk '{ last[$1] = $2 } END { for (s in last) print s, last[s] }' > /app/in-force.txt
