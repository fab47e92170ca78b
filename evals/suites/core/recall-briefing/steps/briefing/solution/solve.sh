#!/bin/bash
set -eu
mkdir -p /memory
echo 'Amberjack: staging kestrel-04.int:7443, deploys Thu 06:40 UTC; rollbacks: Tomasz Wrona, ext. 5518' > /memory/notes.txt
echo noted > /app/ack.txt
