#!/bin/bash
# Usage: close.sh FILE
# Appends the closing line, by which the printer sees that a list of labels is complete.
lines=$(wc -l < "$1")
sum=$(cksum < "$1" | cut -d' ' -f1)
printf '== %d labels, %05d ==\n' "$lines" $((sum % 99991)) >> "$1"
