#!/bin/bash
set -eu
perl -ne '
    next if $. == 1;
    chomp;
    my @fields;
    while (/\G(?:"((?:[^"]|"")*)"|([^,]*))(?:,|$)/g) {
        my $field = defined $1 ? $1 : $2;
        $field =~ s/""/"/g if defined $1;
        push @fields, $field;
        last if pos == length;
    }
    next unless $fields[4] eq "valid";
    (my $cents = $fields[3]) =~ s/\.//;
    push @{$values{$fields[1]}}, $cents + 0;
    END {
        sub money { sprintf "%s%d.%02d", $_[0] < 0 ? "-" : "", int(abs($_[0]) / 100), abs($_[0]) % 100 }
        for my $name (sort keys %values) {
            my @sorted = sort { $a <=> $b } @{$values{$name}};
            my $sum = 0;
            $sum += $_ for @sorted;
            print join("\t", $name, scalar @sorted, money($sum), money($sorted[(@sorted + 1) / 2 - 1]), money($sorted[-1])), "\n";
        }
    }' /app/readings.csv > /app/report.tsv
