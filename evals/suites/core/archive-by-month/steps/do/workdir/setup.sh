#!/bin/bash
set -eu
rm -f setup.sh
mkdir -p spool/in spool/out/late
make() { # PATH MODE TIME
    printf 'data of %s\n' "$1" > "spool/$1"
    chmod "$2" "spool/$1"
    touch -d "$3 UTC" "spool/$1"
}
make in/alpha.dat 600 '2023-01-31 23:59:59'
make in/beta.dat 644 '2023-02-01 00:00:00'
make in/run.sh 755 '2023-02-14 10:00:00'
make out/gamma.dat 640 '2022-12-31 23:30:00'
make out/delta.dat 444 '2023-01-01 00:30:00'
make 'out/late/two words.dat' 664 '2023-02-28 12:00:00'
make out/late/.marker 644 '2022-12-01 00:00:00'
make epsilon.dat 604 '2024-02-29 08:00:00'
ln -s alpha.dat spool/in/latest
ln -s ../out/gamma.dat spool/in/other
ln -s 'late/two words.dat' spool/out/words
