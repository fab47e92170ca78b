#!/bin/bash
set -eu
rm -f setup.sh
mkdir -p media/a media/b/c media/d
block() { perl -e 'print chr($ARGV[0]) x $ARGV[1]' "$1" "$2"; }
# The same content: three groups.
for file in a/one.raw b/uno.raw 'd/one (copy).raw'; do block 65 50000 > "media/$file"; done
for file in a/two.raw b/c/two.raw; do block 66 50000 > "media/$file"; done
for file in b/three.raw b/c/drei.raw d/three.raw d/.three; do { block 67 40000; echo end; } > "media/$file"; done
# Alike, but not the same: a last byte, a byte in the middle, an end; and one of its own kind.
{ block 65 49999; printf Z; } > media/b/one-late.raw
{ block 66 25000; printf Z; block 66 24999; } > media/d/two-mid.raw
{ block 67 40000; echo END; } > media/a/three.raw
echo single > media/d/single.raw
# Empty files say nothing about each other.
: > media/a/empty
: > media/b/empty
