#!/bin/bash
set -eu
cat > /app/rota.txt <<'END'
Rota week 23
Monday Asta
Tuesday Caro
Wednesday Dag
Thursday Dag
Friday Elin
END
