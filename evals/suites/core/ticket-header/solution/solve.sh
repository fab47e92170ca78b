#!/bin/bash
set -euo pipefail
cd /app
last() { sed -n "s/^> $1: //p" ticket.txt | tail -n 1; }
dropped=$(sed -n 's/^> not-duplicate: //p' ticket.txt)
{
    echo "ticket $(head -n 1 ticket.txt | cut -d' ' -f1)"
    for field in status assignee severity fixed-in; do echo "$field $(last "$field")"; done
    echo duplicates $(sed -n 's/^> duplicate: //p' ticket.txt | grep -vx "$dropped" | sort)
} > header.txt
