#!/bin/bash
# Usage: label.sh ZONE NUMBER ITEM
# Prints the label of a shelf: zone, number in the zone, item, and a mark that the scanner checks.
zone=$1 number=$2 item=$3
case $zone in
    K | M | T) ;;
    *) echo "label.sh: unknown zone '$zone'" >&2; exit 2 ;;
esac
text=$(printf '%s%03d %s' "$zone" "$number" "$item")
mark=$(printf 'shelf:%s' "$text" | cksum | cut -d' ' -f1)
printf '%s *%04d\n' "$text" $((mark % 10007))
