#!/bin/bash
set -eu
cd /app/var
kill -0 "$(cat lock/pid)" 2> /dev/null || rm -rf lock
rm -rf table.new tmp
mkdir tmp
# Its rows are in the table.
rm /app/spool/batch-02.tsv
bash /app/import.sh
