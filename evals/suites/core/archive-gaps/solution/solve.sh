#!/bin/bash
set -euo pipefail
declare -A page
for file in /app/ships/*.txt; do
    read -r ship < "$file"
    page[$ship]=$(< "$file")
done
answer() { # NUMBER SHIP PATTERN
    if [[ ${page[$2]//$'\n'/ } =~ $3 ]]; then echo "$1: ${BASH_REMATCH[1]}"; else echo "$1: unknown"; fi
}
captain='Her first captain was ([A-Za-z]* [A-Za-z]*)\.'
tons='She measured ([0-9]*) tons'
yard='built at the yard in ([A-Za-z]*)'
crew='crew numbered ([0-9]*)'
launched='was launched in ([0-9]*)'
port='home port was ([A-Za-z]*)'
{
    answer 1 'Storm Petrel' "$port"
    answer 2 'Saint Orsola' "$launched"
    answer 3 'Anne Brand' "$tons"
    answer 4 'Marigold' "$captain"
    answer 5 'Wheel of the North' "$tons"
    answer 6 'Tern' "$yard"
    answer 7 'Vesper' "$crew"
    answer 8 'Orsola' "$launched"
    answer 9 'Lanthorn' "$captain"
    answer 10 'Vespera' "$crew"
    answer 11 'Halcyon' "$port"
    answer 12 'Arctic Tern' "$yard"
} > /app/answers.txt
