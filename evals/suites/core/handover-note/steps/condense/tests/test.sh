#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local reward=0 file=/app/summary.txt size=0
    if [ -f "$file" ] && [ ! -L "$file" ]; then
        size=$(stat -c %s "$file")
    fi
    # Whether the summary holds what matters is seen in the next step, and only that counts.
    if [ "$size" -ge 200 ] && [ "$size" -le 1000 ]; then
        reward=1
    else
        echo "summary.txt has $size bytes"
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
