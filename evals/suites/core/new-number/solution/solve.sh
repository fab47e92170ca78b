#!/bin/bash
set -eu
sed -i 's/^\(Mara Olsen,.*\),.*/\1,555-0154/' /app/members.csv
