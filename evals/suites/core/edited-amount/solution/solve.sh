#!/bin/bash
set -eu
sed -i -e 's/^C-118,.*/C-118,1275,QX-82/' -e 's/^C-204,.*/C-204,800,QX-93/' /app/limits.csv
