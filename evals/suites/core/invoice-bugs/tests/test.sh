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

inputs() { # 8 trial inputs, from a fixed seed.
    perl -e '
        my ($dir, $x) = ($ARGV[0], 31);
        sub draw { $x = ($x * 1103515245 + 12345) % 2147483648; ($x >> 8) % $_[0] }
        for my $case (1 .. 8) {
            open my $out, ">", "$dir/$case.in" or die;
            for (1 .. 3 * $case) {
                my @more = ("tax=" . draw(26), "discount=" . draw(40));
                @more = reverse @more if draw(2);
                splice @more, draw(2), draw(3);
                print $out join(" ", "order", chr(65 + draw(26)) . "-" . draw(10000), @more), "\n";
                print $out draw(12) - 4, " ", draw(3) ? draw(5000) : 10 * draw(50) + 5, " thing\n" for 1 .. draw(5);
            }
        }' "$work"
}

reference() {
    perl -e '
        sub share { my $x = $_[0] * $_[1]; my $y = int((abs($x) + 50) / 100); $x < 0 ? -$y : $y }
        sub show { sprintf "%s%d.%02d", $_[0] < 0 ? "-" : "", int(abs($_[0]) / 100), abs($_[0]) % 100 }
        my @orders;
        while (<STDIN>) {
            if (/^order (\S+)/) {
                push @orders, { id => "$1", tax => 20, discount => 0, sum => 0 };
                $orders[-1]{$1} = $2 while /(tax|discount)=(\d+)/g;
            } else { /^(-?\d+) (\d+)/ and $orders[-1]{sum} += $1 * $2 }
        }
        for (@orders) {
            my $net = $_->{sum} - share($_->{sum}, $_->{discount});
            my $tax = share($net, $_->{tax});
            print join(" ", $_->{id}, show($net), show($tax), show($net + $tax)), "\n";
        }'
}

main() {
    local case right=0 reward=0
    begin
    inputs
    for case in {1..8}; do
        jail 5 perl /app/invoice/bill.pl < "$work/$case.in" > "$work/$case.out"
        status[case]=$?
    done
    sweep
    for case in {1..8}; do
        if [ "${status[case]}" = 0 ] && cmp <(head -c 100000 "$work/$case.out") <(reference < "$work/$case.in"); then
            right=$((right + 1))
        else
            echo "wrong for input $case"
        fi
    done
    [ "$right" = 8 ] && reward=1
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
