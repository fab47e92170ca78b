#!/bin/bash
set -euo pipefail
# All messages, each with its time in UTC in front, in the order in which they were said.
messages() {
    sed -n 's/^\[\([^]]*\)\] \(.*\)/\1\t\2/p' /app/chat/*.txt | sort -u > /tmp/messages
    cut -f1 /tmp/messages | TZ=UTC date -f - +%FT%R | paste - <(cut -f2 /tmp/messages) | sort
}
stands() { # PATTERN: the last decision on Heron, Kestrel or Dunlin that fits; the day Friday was taken back
    messages | grep -E "DECISION.*(Heron|Kestrel|Dunlin)" | grep "$1" | grep -v Fridays | tail -n 1
}
by() { stands "$1" | cut -f2 | sed 's/:.*//; s/^sunny$/Sun-hee Park/; s/^teo_v$/Teodora Vance/; s/^vidal$/Teo Vidal/'; }
{
    echo "name Dunlin"
    echo "port $(stands ' port ' | sed 's/.* port \([0-9]*\).*/\1/')"
    echo "port-by $(by ' port ')"
    echo "backup-days $(stands backups | sed 's/.* for \([0-9]*\) days.*/\1/')"
    echo "deploy-day $(stands deployed | sed 's/.* on \(.*\)s\.$/\1/')"
    echo "deploy-by $(by deployed)"
    echo "database $(stands database | sed 's/.* database \(.*\)\.$/\1/')"
    echo "database-by $(by database)"
} > /app/decisions.txt
