#!/bin/bash
set -eu
cat > /app/near.pl <<'SCRIPT'
#!/usr/bin/perl
# near.pl < INPUT: for every question, the events near it.
use strict;
use warnings;

my (@events, @questions);
while (<STDIN>) {
    my ($kind, $time, $value) = split;
    push @events, [$time, $value] if $kind eq 'event';       # time, weight
    push @questions, [$time, $value] if $kind eq 'near';     # time, radius
}
@events = sort { $a->[0] <=> $b->[0] } @events;
my @times = map { $_->[0] } @events;
my @total = (0);
push @total, $total[-1] + $_->[1] for @events;

# A tree of maxima: the leaves are the weights, in order of time; node n is the larger one of nodes 2n and 2n + 1.
my $size = 1;
$size *= 2 while $size < @events;
my @tree = (undef) x (2 * $size);
@tree[$size .. $size + $#events] = map { $_->[1] } @events if @events;
for my $node (reverse 1 .. $size - 1) {
    my ($left, $right) = @tree[2 * $node, 2 * $node + 1];
    $tree[$node] = !defined $right || $left > $right ? $left : $right;
}

sub before {    # how many events are earlier than a time
    my ($time) = @_;
    my ($low, $high) = (0, scalar @times);
    while ($low < $high) {
        my $middle = int(($low + $high) / 2);
        if ($times[$middle] < $time) { $low = $middle + 1 } else { $high = $middle }
    }
    return $low;
}

sub heaviest {    # of events FROM to TO - 1
    my ($from, $to) = map { $_ + $size } @_;
    my $best;
    while ($from < $to) {
        if ($from & 1) { $best = $tree[$from] if !defined $best || $tree[$from] > $best; $from++ }
        if ($to & 1) { $to--; $best = $tree[$to] if !defined $best || $tree[$to] > $best }
        $from >>= 1;
        $to >>= 1;
    }
    return $best;
}

for my $question (@questions) {
    my ($time, $radius) = @$question;
    my ($from, $to) = (before($time - $radius), before($time + $radius + 1));
    my $heaviest = $from < $to ? heaviest($from, $to) : '-';
    print $to - $from, ' ', $total[$to] - $total[$from], " $heaviest\n";
}
SCRIPT
