#!/bin/bash
# export.sh FILE: the people of FILE (JSON lines) as a table, by city.
set -euo pipefail
reader=${JSONQ:-}
if [ -z "$reader" ]; then
    if [ -x /app/tools/jsonq ]; then reader=/app/tools/jsonq; else reader=jsonq; fi
fi
echo "city|name|age|note"
"$reader" city name age note < "$1" | LC_ALL=C sort | tr '\t' '|'
