#!/bin/bash
set -euo pipefail
mkdir /app/share
for file in /app/config/*; do
    sed -E -e 's/^([a-z_]+_(password|token|key)) = .*/\1 = [redacted]/' \
        -e 's#(://[^:@/ ]+):[^@/ ]+@#\1:[redacted]@#' "$file" > "/app/share/${file##*/}"
done
