#!/bin/bash
set -eu
cd /app/invoice/lib
# Rounding: away from zero on both sides, in whole numbers.
perl -0pi -e 's{    return int\(\$cents \* \$percent / 100 \+ 0\.5\);}{    my \$exact = \$cents * \$percent;
    my \$rounded = int((abs(\$exact) + 50) / 100);
    return \$exact < 0 ? -\$rounded : \$rounded;}' Money.pm
# Every order has lines of its own, stays in its place, and gives its discount once.
perl -0pi -e 's/, lines => \[\]\)/)/; s/id => \$id \}/id => \$id, lines => [] }/; s/return sort .*;/return \@orders;/;
    s/        my \$cents = (.*);\n.*\n/        \$sum += $1;\n/; s/return \$sum;/return \$sum - Money::share(\$sum, \$order->{discount});/' Order.pm
