#!/bin/bash
set -euo pipefail
cat > /app/summary.txt <<'SUMMARY'
hosts: name address port state
alder 10.4.8.74 9688 moved
birch 10.4.8.39 9513 rolled-back
cedar 10.4.6.171 5917 moved
fir 10.4.2.227 7794 waiting
hazel 10.4.3.212 8878 moved
larch 10.4.5.56 5749 moved
maple 10.4.4.146 5972 moved
rowan 10.4.2.30 8743 waiting
decisions
backups 03:45
logs 90 days
alerts #night-watch
old machines wiped 14 November
open problems: number host waits-for what
K3 cedar Bea disk 4 has read errors, new one on Tuesday
K4 birch Iwona database two versions behind
K5 fir Tomas unreachable from Lund
SUMMARY
