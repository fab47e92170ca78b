#!/bin/bash
. /tests/budget.sh
main() {
    PATH=/usr/bin:/bin
    local reward=0 bytes
    bytes=$(used)
    echo "$bytes bytes of memory are used"
    [ "$(text /app/ack.txt)" = noted ] && [ "$bytes" -le 600 ] && reward=1
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
