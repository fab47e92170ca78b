#!/bin/bash
set -euo pipefail
cat /app/logs/*/*.log | grep -E '^[^ ]+ [^ ]+ [^ ]+ [^ ]+ 5[0-9][0-9] ' | cut -d' ' -f2 \
    | sort | uniq -c | sort -rn | sed -n '1s/.* //p' > /app/answer.txt
