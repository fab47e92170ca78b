#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local reward=0 file=/app/journal.txt
    local sum=915cea451b340c2102146e27aa666571835b28a484f3c6bfaf3ee7ba0cead20d
    if [ -f "$file" ] && [ ! -L "$file" ] && echo "$sum  $file" | sha256sum --check --strict; then
        reward=1
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
