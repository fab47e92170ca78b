#!/bin/bash
set -eu
cat > /app/cache.pl <<'SCRIPT'
#!/usr/bin/perl
use strict;
use warnings;

my $capacity = shift;
my ($clock, $turn, $hits, $misses, $evictions) = (0) x 5;
my %entry;    # key => [value, when it expires or undef, when it was last used]

sub drop_expired {
    for my $key (keys %entry) {
        my $end = $entry{$key}[1];
        delete $entry{$key} if defined $end && $end <= $clock;
    }
}

sub by_use { sort { $entry{$b}[2] <=> $entry{$a}[2] } keys %entry }

while (my $line = <STDIN>) {
    my ($command, @words) = split ' ', $line;
    if ($command eq 'put') {
        my ($key, $value, $ttl) = @words;
        if (!$entry{$key} && keys %entry >= $capacity) {
            delete $entry{(by_use())[-1]};
            $evictions++;
        }
        $entry{$key} = [$value, defined $ttl ? $clock + $ttl : undef, ++$turn];
    } elsif ($command eq 'get') {
        my $found = $entry{$words[0]};
        if ($found) { $hits++; $found->[2] = ++$turn } else { $misses++ }
        print $found ? $found->[0] : '-', "\n";
    } elsif ($command eq 'tick') {
        $clock += $words[0];
        drop_expired();
    } elsif ($command eq 'keys') {
        print join(' ', by_use()), "\n";
    } else {
        print "hits $hits misses $misses evictions $evictions\n";
    }
}
SCRIPT
