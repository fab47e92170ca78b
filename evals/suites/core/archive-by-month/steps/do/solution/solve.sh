#!/bin/bash
set -eu
export TZ=UTC
month() { date -r "$1" +%Y-%m; }
cd /app/spool
# The links first, while they still lead somewhere.
find . -type l -print0 | while IFS= read -r -d '' link; do
    target=$(readlink -f "$link")
    folder=/app/archive/$(month "$target")
    mkdir -p "$folder"
    ln -s "$(basename "$target")" "$folder/$(basename "$link")"
    rm "$link"
done
find . -type f -print0 | while IFS= read -r -d '' file; do
    folder=/app/archive/$(month "$file")
    mkdir -p "$folder"
    mv "$file" "$folder/"
done
find . -mindepth 1 -depth -type d -exec rmdir {} +
