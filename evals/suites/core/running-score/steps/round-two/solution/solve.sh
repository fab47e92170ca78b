#!/bin/bash
set -eu
echo Newts > /app/winner.txt
