#!/bin/bash
# build.sh SOURCES OUT: writes OUT/index.txt, the words of all SOURCES/*.txt, each once, sorted, under a banner.
set -euo pipefail
. /app/env.sh
mkdir -p "$2"
{
    banner index
    cat "$1"/*.txt | tr -cs 'a-zA-Z' '\n' | tr 'A-Z' 'a-z' | sed '/^$/d' | sort -u
} > "$2/index.txt"
echo "built $2/index.txt"
