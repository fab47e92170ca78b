#!/bin/bash
# What a checkout cannot hold: a lock of a process long gone, a link to nowhere, a folder where a file should be.
set -eu
rm -f setup.sh
mkdir -p var/lock var/table.new
printf '10\tchair\n11\ttable\n30\tdesk\n31\tlamp\n# rows 4\n' > var/table.tsv
echo 4194300 > var/lock/pid
ln -s /mnt/scratch-old var/tmp
: > var/table.new/.keep
