#!/bin/bash
set -eu
echo 'Hello from the sandbox!' > /app/greeting.txt
