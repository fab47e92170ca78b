#!/bin/bash
set -eu
mkdir -p /app/out
cat > /app/out/sales-list.txt <<'END'
Korb	157,50
Tuch	143,82
Seife	99,20
Becher	90,30
other	128,25
END
