package Money;
# Amounts are whole cents; a share is so many percent of one, rounded half away from zero.
use strict;
use warnings;

sub share {
    my ($cents, $percent) = @_;
    return int($cents * $percent / 100 + 0.5);
}

sub show {
    my ($cents) = @_;
    return sprintf '%.2f', $cents / 100;
}

1;
