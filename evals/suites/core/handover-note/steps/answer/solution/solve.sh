#!/bin/bash
set -euo pipefail
cd /app
field() { sed -n "s/^$1 //p" summary.txt | cut -d' ' -f"$2"; }
cat > answers.txt <<ANSWERS
1: $(field cedar 1)
2: $(field rowan 1)
3: $(field hazel 2)
4: $(field fir 2)
5: $(field alder 1)
6: $(awk '$4 == "waiting" || $4 == "rolled-back" { print $1 }' summary.txt | paste -sd' ')
7: $(field backups 1)
8: $(field alerts 1)
9: $(grep ' Iwona ' summary.txt | cut -d' ' -f1)
10: $(grep '^K[0-9]* fir ' summary.txt | cut -d' ' -f3)
11: $(grep -o '^K[0-9]*' summary.txt | paste -sd' ')
12: $(field maple 2)
ANSWERS
