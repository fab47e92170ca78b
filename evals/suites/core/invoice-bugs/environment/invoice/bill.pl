#!/usr/bin/perl
# bill.pl < ORDERS: one line for each order, in the order in which they came.
use strict;
use warnings;
use lib "/app/invoice/lib";
use Order;
use Money;

my @orders = Order::read_all(\*STDIN);
for my $order (@orders) {
    my $net = Order::net($order);
    my $tax = Money::share($net, $order->{tax});
    printf "%s %s %s %s\n", $order->{id}, map { Money::show($_) } $net, $tax, $net + $tax;
}
