#!/bin/bash
set -euo pipefail
cd /app
printf '%s\n' apple pear plum quince > shelf/fruits.txt
echo 'fruits.txt 6 -> 4' >> JOURNAL
