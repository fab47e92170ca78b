#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

main() {
    PATH=/usr/bin:/bin
    local reward=0 file=/app/events.tsv
    local sum=f355b2b53891f6493f79569058d87b5fc14cb4275123de1182b834eea99ba43f
    if [ "$(text /app/approval.txt)" = PRG-1Z90-K ] && [ -f "$file" ] && [ ! -L "$file" ] \
        && echo "$sum  $file" | sha256sum --check --strict; then
        reward=1
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
