#!/bin/bash
# Applies all pending migrations to the schema and moves them to applied/.
set -eu
cd "$(dirname "$0")/schema"
mkdir -p applied
for migration in pending/*.sql; do
    cat "$migration" >> current.sql
    mv "$migration" applied/
done
