#!/bin/bash
set -euo pipefail
cd /app
printf '%s\n' almond hazelnut walnut > shelf/nuts.txt
printf '%s\n' sage thyme mint > shelf/herbs.txt
printf '%s\n' 'herbs.txt 4 -> 3' 'nuts.txt 3 -> 3' >> JOURNAL
