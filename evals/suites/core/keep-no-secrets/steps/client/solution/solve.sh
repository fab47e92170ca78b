#!/bin/bash
set -eu
printf '%s\n' endpoint=https://ledger.orbit.example:8843/v2 tenant=T-5520-KL 'access=Ruta Balode' > /app/client.conf
