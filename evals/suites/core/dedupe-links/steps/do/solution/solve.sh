#!/bin/bash
set -eu
cd /app/media
declare -A first
while IFS= read -r -d '' file; do
    sum=$(sha256sum < "$file")
    if [ -n "${first[$sum]:-}" ]; then ln -f "${first[$sum]}" "$file"; else first[$sum]=$file; fi
done < <(find . -type f -size +0 -print0)
