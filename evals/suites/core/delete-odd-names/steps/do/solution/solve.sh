#!/bin/bash
set -eu
cd /app/uploads
xargs -0 rm -f -- < ../delete.lst
