#!/bin/bash
# Files with exact bytes and times, which a checkout of this suite might not keep.
set -eu
rm -f setup.sh
mkdir -p docs/guide docs/old docs/img
printf 'Install\r\n=======\r\n\r\nRun setup.\r\n' > docs/install.txt
printf 'First\r\nsecond without an end' > docs/guide/first.txt
printf 'Progress: 10%%\r20%%\r30%%\r\ndone\r\n' > docs/guide/progress.txt
printf '\r\n\r\n' > docs/old/blank.txt
printf 'Already fine\n' > docs/fine.txt
printf 'One\rtwo\rthree\r' > docs/old/mac.txt
printf 'MZ\0\r\n\0\r\n' > docs/img/logo.bin
printf 'Not a text file by name\r\n' > docs/guide/README
printf 'upper case\r\n' > docs/old/NOTES.TXT
: > docs/empty.txt
chmod 640 docs/install.txt
chmod 755 docs/guide/first.txt
find docs -type f -exec touch -d '2021-03-04 05:06:07 UTC' {} +
