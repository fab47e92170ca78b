#!/bin/bash
set -eu
cd /app/accounts
sed -i 's/^status = "active"$/status = "closed"/' A-1182.toml A-3377.toml
printf '%s\n' A-1182,closed,CLS-71Q A-2040,kept,HOLD-3M A-3377,closed,CLS-80V A-4106,kept,HOLD-9T > /app/decisions.csv
