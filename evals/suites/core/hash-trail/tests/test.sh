#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local reward=0 file=/app/trail.txt
    if [ -f "$file" ] && [ ! -L "$file" ] && [ "$(head -c 100 "$file" | tr -d '\r\0')" = '23 xobazu' ]; then
        reward=1
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
