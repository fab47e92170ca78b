#!/usr/bin/perl
# near.pl < INPUT: for every question, the events near it.
use strict;
use warnings;

my (@events, @questions);
while (<STDIN>) {
    my ($kind, @rest) = split;
    push @events, [@rest] if $kind eq 'event';        # time, weight
    push @questions, [@rest] if $kind eq 'near';      # time, radius
}
for my $question (@questions) {
    my ($time, $radius) = @$question;
    my ($count, $sum, $heaviest) = (0, 0, '-');
    for my $event (@events) {
        next if abs($event->[0] - $time) > $radius;
        $count++;
        $sum += $event->[1];
        $heaviest = $event->[1] if $heaviest eq '-' || $event->[1] > $heaviest;
    }
    print "$count $sum $heaviest\n";
}
