#!/bin/bash
set -eu
printf '%s\n' 'refused FRZ-6621' 'ask Aino 2025-11-17' > /app/outcome.txt
