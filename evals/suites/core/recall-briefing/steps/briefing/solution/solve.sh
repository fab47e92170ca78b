#!/bin/bash
set -eu
mkdir -p /memory
cat > /memory/notes.txt <<'END'
Amberjack: staging kestrel-04.int:7443, deploys Thu 06:40 UTC; rollbacks: Tomasz Wrona, ext. 5518
END
echo noted > /app/ack.txt
