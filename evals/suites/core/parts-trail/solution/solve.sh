#!/bin/bash
set -euo pipefail
cd /app/records
text() { tr '\n' ' ' < "$1"; }                                # a file as one line
slug() { tr 'A-Z' 'a-z' <<< "$1" | sed 's/ & /-/; s/ /-/g'; }
named() { grep -l ": $1\$" parts/*.txt | sed 's/.*\///; s/\.txt//'; }
supplier() { text "parts/$1.txt" | sed -n 's/.*It is bought from \(.*\)\. Until.*/\1/p'; }
plant() { text "suppliers/$(slug "$(supplier "$1")").txt" | sed 's/.* is made at the plant \([A-Za-z]*\);.*/\1/'; }
complaints() { text "suppliers/$(slug "$(supplier "$1")").txt" | sed 's/.*complaints go to \([A-Za-z]* [A-Za-z]*\)\..*/\1/'; }
town() { text "plants/$(slug "$(plant "$1")").txt" | sed 's/.*The plant lies in \(.*\) and works.*/\1/'; }
manager() { text "plants/$(slug "$(plant "$1")").txt" | sed 's/.*the quality manager is \([A-Za-z]* [A-Za-z]*\)\..*/\1/'; }
extension() { text "people/$(slug "$1").txt" | sed 's/.*extension \([0-9]*\);.*/\1/'; }
replacement() { text "parts/$1.txt" | sed 's/.*replacement is part \([0-9]*\),.*/\1/'; }
count=0
for file in suppliers/*.txt; do
    [[ $(text "$file") = *" is made at the plant Altmark;"* ]] || continue
    name=$(head -n 1 "$file")
    count=$((count + $(for part in parts/*.txt; do tr '\n' ' ' < "$part"; echo; done | grep -c "It is bought from $name\. ")))
done
cat > /app/answers.txt <<ANSWERS
a: $(plant 3594)
b: $(town "$(named 'sight glass')")
c: $(manager 3646)
d: $(extension "$(manager "$(named 'lever')")")
e: $(complaints "$(replacement 3910)")
f: $(extension "$(manager "$(replacement 3286)")")
g: $count
ANSWERS
