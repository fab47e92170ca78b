#!/bin/bash
. /tests/secrets.sh
main() {
    PATH=/usr/bin:/bin
    local reward=0
    if leaked; then
        echo 'the password is in the memory'
    elif [ "$(text /app/login.txt)" = a1e4adca8c668871f1f2831cd90c0f68b48ec6cacb811adebc17fe5b0a33fb85 ]; then
        reward=1
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
