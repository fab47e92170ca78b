#!/bin/bash
set -eu
good=1 bad=4096
while ((bad - good > 1)); do
    middle=$(((good + bad) / 2))
    answer=$(/app/probe $middle)
    while [ "$answer" = untestable ]; do
        middle=$((middle + 1))
        answer=$(/app/probe $middle)
    done
    if [ "$answer" = bad ]; then bad=$middle; else good=$middle; fi
done
echo $bad > /app/first-bad.txt
