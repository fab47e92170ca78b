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

input() { # CASE: small ones 1 to 9, the large one 10; from a fixed seed
    perl -e '
        my ($case, $x) = ($ARGV[0], 71 * $ARGV[0]);
        sub draw { $x = ($x * 1103515245 + 12345) % 2147483648; ($x >> 6) % $_[0] }
        my ($events, $questions) = $case < 10 ? ($case * $case - 1, 6 * $case) : (25000, 25000);
        my $span = $case < 10 ? 1 + 3 * $case : 20_000_000;
        while ($events + $questions) {
            if (draw($events + $questions) < $events) {
                $events--;
                print "event ", draw($span), " ", draw(2001) - 1500, "\n";
            } else {
                $questions--;
                print "near ", draw($span), " ", $case < 10 ? draw(8) : draw(3) ? draw(3_000_000) : draw(25_000_000), "\n";
            }
        }' "$1"
}

reference() { # By sorting, sums so far, and the maxima of runs of 2, 4, 8 ... events.
    perl -e '
        my (@events, @questions);
        while (<STDIN>) {
            my ($kind, $time, $value) = split;
            if ($kind eq "event") { push @events, [$time, $value] } else { push @questions, [$time, $value] }
        }
        @events = sort { $a->[0] <=> $b->[0] } @events;
        my @sum = (0);
        push @sum, $sum[-1] + $_->[1] for @events;
        my @max = ([map { $_->[1] } @events]);
        for (my $width = 1; 2 * $width <= @events; $width *= 2) {
            my $last = $max[-1];
            push @max, [map { $last->[$_] > $last->[$_ + $width] ? $last->[$_] : $last->[$_ + $width] } 0 .. @events - 2 * $width];
        }
        sub first { # the number of events before a time
            my ($low, $high) = (0, scalar @events);
            while ($low < $high) { my $mid = $low + $high >> 1; if ($events[$mid][0] < $_[0]) { $low = $mid + 1 } else { $high = $mid } }
            $low;
        }
        for (@questions) {
            my ($from, $to) = (first($_->[0] - $_->[1]), first($_->[0] + $_->[1] + 1));
            if ($from == $to) { print "0 0 -\n"; next }
            my $level = 0;
            $level++ while 2 << $level <= $to - $from;
            my ($one, $two) = ($max[$level][$from], $max[$level][$to - (1 << $level)]);
            print $to - $from, " ", $sum[$to] - $sum[$from], " ", $one > $two ? $one : $two, "\n";
        }'
}

main() {
    local case right=0 reward=0
    begin
    for case in {1..10}; do
        input "$case" > "$work/$case.in"
        # Processor time is what counts, however busy the machine is; the deadline is only for what sleeps.
        (ulimit -t 4; jail 40 perl /app/near.pl < "$work/$case.in" > "$work/$case.out")
        status[case]=$?
        [ "${status[case]}" = 0 ] || break
    done
    sweep
    for case in {1..10}; do
        if [ "${status[case]}" = 0 ] && cmp <(head -c 4000000 "$work/$case.out") <(reference < "$work/$case.in"); then
            right=$((right + 1))
        else
            echo "wrong, or too late, for input $case"
            break
        fi
    done
    [ "$right" = 10 ] && reward=1
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
