#!/bin/bash
set -euo pipefail
cd /app/records
between() { # FILE PATTERN: what the pattern's parentheses catch in the file, read as one line
    local text
    text=$(< "$1")
    if [[ ${text//$'\n'/ } =~ $2 ]]; then echo "${BASH_REMATCH[1]}"; fi
}
record() { # FOLDER NAME: the file of that name
    local name=${2,,}
    name=${name// & /-}
    echo "$1/${name// /-}.txt"
}
named() { basename "$(grep -l ": $1\$" parts/*.txt)" .txt; }
supplier() { between "parts/$1.txt" 'It is bought from (.*)\. Until'; }
plant() { between "$(record suppliers "$(supplier "$1")")" 'is made at the plant ([A-Za-z]*);'; }
complaints() { between "$(record suppliers "$(supplier "$1")")" 'complaints go to ([A-Za-z]* [A-Za-z]*)\.'; }
town() { between "$(record plants "$(plant "$1")")" 'The plant lies in (.*) and works'; }
manager() { between "$(record plants "$(plant "$1")")" 'the quality manager is ([A-Za-z]* [A-Za-z]*)\.'; }
extension() { between "$(record people "$1")" 'extension ([0-9]*);'; }
replacement() { between "parts/$1.txt" 'replacement is part ([0-9]*),'; }
count=0
for file in parts/*.txt; do
    part=${file##*/}
    from=$(supplier "${part%.txt}")
    if [ -n "$from" ] && [ "$(between "$(record suppliers "$from")" 'is made at the plant ([A-Za-z]*);')" = Altmark ]; then
        count=$((count + 1))
    fi
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
