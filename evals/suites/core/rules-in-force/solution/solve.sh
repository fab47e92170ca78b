#!/bin/bash
set -euo pipefail
cd /app/circulars
# The circulars that count, oldest effective date first. One is only withdrawn by a later one, so the latest comes first.
awk '
    BEGIN {
        months = "January February March April May June July August September October November December"
        for (i = split(months, name); i > 0; i--) month[name[i]] = i
    }
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
# Of the values that a subject had, the last one holds.
sed -n -f - /tmp/counting <<'SED' | awk '{ last[$1] = $2 } END { for (s in last) print s, last[s] }' > /app/in-force.txt
h
s/.*on, the allowance for a day of travel is \([0-9]*\) crowns\..*/day-allowance \1/p; g
s/.*on, a month in the car park costs \([0-9]*\) crowns\..*/parking-fee \1/p; g
s/.*on, the works council has a quorum with \([0-9]*\) members\..*/quorum \1/p; g
s/.*on, at most \([0-9]*\) visitor badges are out at a time\..*/visitor-badges \1/p; g
s/.*on, delivery notes are kept for \([0-9]*\) years\..*/archive-years \1/p; g
s/.*on, overtime is capped at \([0-9]*\) hours a month\..*/overtime-cap \1/p; g
s/.*on, the noise limit in the yard is \([0-9]*\) decibels\..*/noise-limit \1/p; g
s/.*on, the goods lift carries at most \([0-9]*\) kg\..*/lift-load \1/p; g
SED
