#!/bin/bash
set -euo pipefail
cat > /app/open.txt <<'LINES'
3 Ilse 2031-05-23
5 Piet 2031-05-30
7 Jan 2031-05-20
8 Jan 2031-05-12
9 Piet 2031-05-16
10 Jan 2031-06-06
11 Ilse 2031-05-14
LINES
