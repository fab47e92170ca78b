#!/bin/bash
set -eu
word=harbour count=0
while [[ $word != end\ * ]]; do
    sum=$(printf %s "$word" | sha256sum)
    word=$(cat "/app/trail/${sum:0:10}")
    count=$((count + 1))
done
echo "$count ${word#end }" > /app/trail.txt
