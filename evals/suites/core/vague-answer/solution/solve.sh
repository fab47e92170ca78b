#!/bin/bash
set -eu
printf '%s\n' pump=P-728 seal=S-4428 site=mill > /app/order.txt
