#!/bin/bash
set -euo pipefail
cd /app
printf '%s\n' quince pear >> shelf/fruits.txt
printf '%s\n' walnut almond hazelnut > shelf/nuts.txt
printf '%s\n' 'fruits.txt 4 -> 6' 'nuts.txt 0 -> 3' > JOURNAL
