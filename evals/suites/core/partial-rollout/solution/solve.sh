#!/bin/bash
set -eu
cd /app/regions
for region in north:100 coast:100 island:10; do
    printf '%s\n' version=2.6.0 "traffic=${region#*:}" ticket=CHG-5093 > "${region%:*}.conf"
done
printf '%s\n' valley,2025-09-18 metro,2025-10-02 > /app/deferred.csv
