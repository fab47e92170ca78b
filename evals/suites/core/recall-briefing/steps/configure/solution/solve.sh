#!/bin/bash
set -eu
printf '%s\n' service=amberjack host=kestrel-04.int port=7443 'window=Thu 06:40' rollback=5518 > /app/deploy.conf
