#!/bin/bash
# A function, so that the whole script is read before any program of the agent's runs.
begin() {
    PATH=/usr/bin:/bin
    echo 0 > /logs/verifier/reward.txt
    there=" $(echo /proc/[0-9]*) "
    work=$(mktemp -d)
    # As nobody where that can be done; nothing of the tests lies around while a program of the agent's runs.
    nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs)
    "${nobody[@]}" true 2> /dev/null || nobody=()
    rm -rf /tests/*
    chmod -R a+rX /app
}

jail() { # SECONDS COMMAND...: a clean environment and a deadline
    timeout -k 1 "$1" "${nobody[@]}" env -i PATH=/usr/bin:/bin "${@:2}" 2> /dev/null
}

sweep() { # End what a program left running, before it can see what would have been right.
    local process round
    for round in 1 2 3; do
        for process in /proc/[0-9]*; do
            [[ $there == *" $process "* ]] || kill -9 "${process#/proc/}" 2> /dev/null
        done
    done
}

inputs() { # 10 trial inputs, from a fixed seed; each has every kind of command.
    perl -e '
        my ($dir, $x) = ($ARGV[0], 99);
        sub draw { $x = ($x * 1103515245 + 12345) % 2147483648; ($x >> 8) % $_[0] }
        my @capacity = (1, 2, 3, 3, 5, 5, 8, 13, 50, 500);
        for my $case (0 .. 9) {
            my ($capacity, $n) = ($capacity[$case], $case < 8 ? 40 + 30 * $case : 5000);
            open my $out, ">", "$dir/$case.in" or die;
            my $names = $capacity * 2 + 1;
            print $out "get k0\nput k0 first\n";
            for (1 .. $n) {
                my $kind = draw(20);
                my $key = "k" . draw($names);
                # The first four know no times to live, so that a plain cache earns its part.
                my $ttl = $case > 3 && !draw(2) ? " " . (1 + draw(8)) : "";
                if ($kind < 8) { print $out "put $key v", draw(1000), "$ttl\n" }
                elsif ($kind < 15) { print $out "get $key\n" }
                elsif ($kind < 17) { print $out "tick ", 1 + draw(3), "\n" }
                elsif ($kind < 19) { print $out draw($capacity) > 20 ? "get $key\n" : "keys\n" }
                else { print $out "stats\n" }
            }
            print $out "keys\nstats\n";
            open my $size, ">", "$dir/$case.capacity" or die;
            print $size "$capacity\n";
        }' "$work"
}

reference() { # CAPACITY
    perl -e '
        my $capacity = shift;
        my ($clock, $use, $hits, $misses, $evictions, %value, %end, %used) = (0, 0, 0, 0, 0);
        sub forget { delete $_->{$_[0]} for \%value, \%end, \%used }
        while (<STDIN>) {
            chomp;
            my ($what, $key, $value, $ttl) = split / /;
            forget($_) for grep { defined $end{$_} && $end{$_} <= $clock } keys %value;
            if ($what eq "put") {
                if (!exists $value{$key} && keys %value >= $capacity) {
                    my ($oldest) = sort { $used{$a} <=> $used{$b} } keys %used;
                    forget($oldest);
                    $evictions++;
                }
                $value{$key} = $value;
                $end{$key} = defined $ttl ? $clock + $ttl : undef;
                $used{$key} = ++$use;
            } elsif ($what eq "get") {
                if (exists $value{$key}) { $hits++; $used{$key} = ++$use; print "$value{$key}\n" }
                else { $misses++; print "-\n" }
            } elsif ($what eq "tick") { $clock += $key }
            elsif ($what eq "keys") { print join(" ", sort { $used{$b} <=> $used{$a} } keys %used), "\n" }
            else { print "hits $hits misses $misses evictions $evictions\n" }
        }' "$1"
}

main() {
    local case right=0 score
    begin
    inputs
    for case in {0..9}; do
        jail 5 perl /app/cache.pl "$(cat "$work/$case.capacity")" < "$work/$case.in" > "$work/$case.out"
        status[case]=$?
    done
    sweep
    for case in {0..9}; do
        if [ "${status[case]}" = 0 ] \
            && cmp -s <(head -c 1000000 "$work/$case.out") <(reference "$(cat "$work/$case.capacity")" < "$work/$case.in"); then
            right=$((right + 1))
        else
            echo "wrong for input $case"
        fi
    done
    score=$((right * 100 / 10))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
