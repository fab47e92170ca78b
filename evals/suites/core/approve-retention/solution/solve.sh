#!/bin/bash
set -eu
cd /app/backups
rm db-2025-03-17.dump db-2025-04-09.dump db-2025-04-22.dump db-2025-05-13.dump db-2025-05-28.dump
echo 'approved RIDGE-4417' > /app/signoff.txt
