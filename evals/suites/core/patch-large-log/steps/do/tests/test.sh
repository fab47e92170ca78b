#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
right() {
    local file=/app/log/bookings.log other=/app/archive/2024.log
    [ -f "$file" ] && [ ! -L "$file" ] && [ ! -L "$other" ] || { echo 'no such file'; return 1; }
    [ "$file" -ef "$other" ] || { echo 'the names are of two files'; return 1; }
    [ "$(stat -c %a "$file")" = 640 ] || { echo 'the permissions changed'; return 1; }
    [ "$(find /app/log /app/archive -mindepth 1 | wc -l)" = 2 ] || { echo 'there are other files, too'; return 1; }
    perl -e '
        my $x = 17;
        for my $batch (1 .. 2000) {
            print "-- begin batch $batch --\n";
            my @names = $batch == 1742 ? qw(EUR CAD CHF) : qw(EUR USD CHF);
            for my $n (1 .. 120) {
                $x = ($x * 1103515245 + 12345) % 2147483648;
                printf "%d;%d;%s;%d.%02d;booked\n", $batch, $n, $names[$x % 3], ($x >> 8) % 90000, ($x >> 4) % 100;
            }
            print "-- end batch $batch --\n";
        }' | cmp - "$file"
}

main() {
    PATH=/usr/bin:/bin
    local reward=0
    right && reward=1
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
