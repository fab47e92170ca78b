package Order;
# Orders as they come in: a head, then its lines.
use strict;
use warnings;
use Money;

my %defaults = (tax => 20, discount => 0, lines => []);

sub read_all {
    my ($in) = @_;
    my @orders;
    while (my $text = <$in>) {
        chomp $text;
        if ($text =~ /^order (\S+)(.*)/) {
            my ($id, $rest) = ($1, $2);
            my $order = { %defaults, id => $id };
            $order->{$1} = $2 while $rest =~ /(tax|discount)=(\d+)/g;
            push @orders, $order;
        } elsif ($text =~ /^(-?\d+) (\d+)/) {
            push @{$orders[-1]{lines}}, { count => $1, cents => $2 };
        }
    }
    return sort { $a->{id} cmp $b->{id} } @orders;
}

sub net {
    my ($order) = @_;
    my $sum = 0;
    for my $line (@{$order->{lines}}) {
        my $cents = $line->{count} * $line->{cents};
        $sum += $cents - Money::share($cents, $order->{discount});
    }
    return $sum;
}

1;
