#!/bin/bash
# A log of about 13 MB, always the same.
set -eu
rm -f setup.sh
mkdir -p log archive
perl -e '
    my $x = 17;
    for my $batch (1 .. 2000) {
        print "-- begin batch $batch --\n";
        for my $n (1 .. 120) {
            $x = ($x * 1103515245 + 12345) % 2147483648;
            printf "%d;%d;%s;%d.%02d;booked\n", $batch, $n, qw(EUR USD CHF)[$x % 3], ($x >> 8) % 90000, ($x >> 4) % 100;
        }
        print "-- end batch $batch --\n";
    }' > log/bookings.log
chmod 640 log/bookings.log
ln log/bookings.log archive/2024.log
