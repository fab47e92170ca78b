#!/bin/bash
# Names that neither a checkout nor an archive is sure to keep, so they are made here.
set -eu
rm -f setup.sh
mkdir -p uploads/sub
cd uploads
keep=('report.txt' 'rf' 'ab' 'new' 'line' 'tail' 'x y' 'Ünïcode.md' 'sub/keep.txt' 'sub/a b' 'quote' '$HOME' 'one' 'two.txt' '.hidden' 'back' 'c?')
gone=('-rf' 'a*' $'new\nline' 'tail ' ' x  y' 'ünïcode.md' 'sub/-n' $'tab\there' 'quo"te' "it's" '$(reboot)' 'back\slash' 'c[d]' '--' 'sub/*' '~')
for name in "${keep[@]}" "${gone[@]}"; do
    printf 'content of %s\n' "$name" > "./$name"
done
printf '%s\0' "${gone[@]}" > ../delete.lst
