#!/bin/bash
set -eu
cat > /app/open.csv <<'END'
D-01,Salma,2025-03-21
D-02,Salma,2025-04-08
D-03,Oskar,2025-04-30
D-04,Tove,2025-03-18
D-05,Tove,2025-04-04
D-06,Oskar,2025-03-19
D-07,Ruben,2025-04-11
D-08,Salma,2025-03-20
D-10,Ruben,2025-03-12
D-11,Oskar,2025-04-01
D-14,Tove,2025-04-25
END
