#!/bin/bash
set -euo pipefail
base=$(sed -n 's/^ *flange *bolts *\([0-9]*\) Nm$/\1/p' /app/manuals/kv-212.txt)
less=$(sed -n 's/^ *flange *bolts *less *\([0-9]*\) Nm$/\1/p' /app/manuals/kv-212.txt)
echo $((base - less)) > /app/torque.txt
