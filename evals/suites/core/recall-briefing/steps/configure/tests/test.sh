#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

main() {
    PATH=/usr/bin:/bin
    local content right=0 pair
    content=$(text /app/deploy.conf)
    for pair in service=amberjack host=kestrel-04.int port=7443 'window=Thu 06:40' rollback=5518; do
        if [ "$(grep "^${pair%%=*}=" <<< "$content")" = "$pair" ]; then
            right=$((right + 1))
        else
            echo "wrong: ${pair%%=*}"
        fi
    done
    case $right in
        5) echo 1.0 ;;
        *) echo "0.$((right * 2))" ;;
    esac > /logs/verifier/reward.txt
    exit 0
}
main
