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

inputs() { # The trial inputs, from a fixed seed: 12 to be merged, 6 to be refused, one without intervals.
    perl -e '
        my ($dir, $x) = ($ARGV[0], 4242);
        sub draw { $x = ($x * 1103515245 + 12345) % 2147483648; ($x >> 8) % $_[0] }
        my @bad = ("1", "1 2 3", "x 4", "1.5 2", "5 3", "1 2-");
        for my $case (1 .. 19) {
            open my $out, ">", "$dir/$case.in" or die;
            if ($case == 19) { print $out "\n\n"; next }
            my $n = $case < 12 ? 5 + 5 * $case : $case == 12 ? 2000 : 8;
            my $span = $n * (2 + $case % 5);
            my $at = $case > 12 ? draw($n) : -1;
            for my $line (0 .. $n - 1) {
                print $out "$bad[$case - 13]\n" if $line == $at;
                my $start = draw($span) - int($span / 3);
                print $out $start, " " x (1 + draw(2)), $start + draw(3 + $case % 4), draw(9) ? "\n" : "\n\n";
            }
        }' "$work"
}

reference() {
    perl -e '
        my @all;
        while (<STDIN>) {
            next if /^$/;
            /^(-?\d+) +(-?\d+)$/ && $1 <= $2 or do { print "status 2\n"; exit };
            push @all, [$1, $2];
        }
        my @merged;
        for (sort { $a->[0] <=> $b->[0] } @all) {
            if (@merged && $_->[0] <= $merged[-1][1] + 1) { $merged[-1][1] = $_->[1] if $_->[1] > $merged[-1][1] }
            else { push @merged, [@$_] }
        }
        print map({ "@$_\n" } @merged), "status 0\n";'
}

main() {
    local case right=0 score
    begin
    inputs
    for case in {1..19}; do
        jail 5 bash /app/merge.sh < "$work/$case.in" > "$work/$case.out"
        status[case]=$?
    done
    sweep
    for case in {1..19}; do
        # What only ever refuses, or says nothing, is right about the last ones by accident.
        [ "$case" -gt 12 ] && [ "$right" = 0 ] && break
        if cmp -s <(head -c 100000 "$work/$case.out"; echo "status ${status[case]}") <(reference < "$work/$case.in"); then
            right=$((right + 1))
        else
            echo "wrong for input $case"
        fi
    done
    score=$((right * 100 / 19))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
