#!/bin/bash
set -eu
mkdir -p /memory
cat > /memory/ledger.md <<'END'
ledger: https://ledger.orbit.example:8843/v2, tenant T-5520-KL (not T-5502-KL), access: Ruta Balode
END
printf %s 'Plover93-Quartz-Tern' | sha256sum | cut -d' ' -f1 > /app/login.txt
