#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
#
# The records are judged, not the way there: the goods that left each site must be those that the shipped orders took.
main() {
    PATH=/usr/bin:/bin
    local right=0 score
    echo 0 > /logs/verifier/reward.txt
    cd /app/var || exit 0
    local name
    for name in stock.txt orders.txt done.txt; do
        [ -f "$name" ] && [ ! -L "$name" ] || { echo "no $name"; exit 0; }
    done
    right=$(cat <(head -c 20000 stock.txt) <(echo ==) <(head -c 20000 orders.txt) <(echo ==) \
        <(head -c 20000 done.txt) | perl -e '
        my %stock = map { ("@$_[0,1]" => $_->[2]) } ([qw(hamburg bearing 14)], [qw(hamburg gasket 0)], [qw(hamburg rotor 3)],
            [qw(lyon bearing 20)], [qw(lyon gasket 6)], [qw(lyon rotor 2)], [qw(porto bearing 13)], [qw(porto gasket 9)],
            [qw(porto rotor 1)]);
        my %orders = (4409 => {rotor => 2, bearing => 10},
            4411 => {bearing => 19, gasket => 5, rotor => 3}, 4417 => {gasket => 6, bearing => 14}, 4420 => {rotor => 9, bearing => 1});
        my ($part, %now, %open, %done, $odd) = (0);
        while (<STDIN>) {
            chomp;
            if ($_ eq "==") { $part++ }
            elsif ($part == 0) { my ($site, $article, $free) = split / /; $now{"$site $article"} = $free }
            elsif ($part == 1) { $open{(split / /)[0]}++ }
            else { my ($what, $order, @how) = split / /; $odd++ if $done{$order}; $done{$order} = [$what, @how] }
        }
        my $right = 0;
        for my $order (sort keys %done) {
            my ($what, @how) = @{$done{$order}};
            next if $open{$order} || !$orders{$order};
            if ($what eq "refused") { $right++ if $order == 4420 && "@how" eq "short"; next }
            next if $order == 4420;
            my %from = map { split /@/, $_, 2 } @how;
            next unless join(" ", sort keys %from) eq join(" ", sort keys %{$orders{$order}});
            next if grep { !exists $stock{"$from{$_} $_"} } keys %from;
            $stock{"$from{$_} $_"} -= $orders{$order}{$_} for keys %from;
            $right++;
        }
        # What is on hold for nobody, or was never there, makes the whole record wrong.
        $odd++ if grep { $stock{$_} < 0 || !defined $now{$_} || $now{$_} ne $stock{$_} } keys %stock;
        $odd++ if %open && !$right;
        print $odd ? 0 : $right;')
    [[ $right =~ ^[0-4]$ ]] || right=0
    score=$((right * 25))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
