#!/bin/bash
set -eu
cat > /app/calc.pl <<'SCRIPT'
#!/usr/bin/perl
# A line is parsed into a tree of [operator, operands...], which is then evaluated.
use strict;
use warnings;

my (%variable, @tokens);
my %calls = map { $_ => 1 } qw(min max abs);

sub next_is { return @tokens && $tokens[0] eq $_[0] }
sub expect { next_is($_[0]) or die "syntax\n"; shift @tokens }

sub atom {
    @tokens or die "syntax\n";
    my $token = shift @tokens;
    return ['number', $token] if $token =~ /^\d+$/;
    if ($token eq '(') { my $tree = choice(); expect(')'); return $tree }
    die "syntax\n" unless $token =~ /^[A-Za-z_]\w*$/;
    return ['name', $token] unless $calls{$token};
    expect('(');
    my @arguments = (choice());
    while (next_is(',')) { shift @tokens; push @arguments, choice() }
    expect(')');
    die "syntax\n" if $token eq 'abs' && @arguments != 1;
    return [$token, @arguments];
}

sub power {
    my $base = atom();
    return $base unless next_is('^');
    shift @tokens;
    return ['^', $base, signed()];
}

sub signed {
    if (next_is('-')) { shift @tokens; return ['negate', signed()] }
    if (next_is('+')) { shift @tokens; return signed() }
    return power();
}

my @levels = (['<', '>', '=='], ['+', '-'], ['*', '/', '%']);

sub level {
    my ($number) = @_;
    return signed() if $number == @levels;
    my $tree = level($number + 1);
    while (@tokens and grep { $_ eq $tokens[0] } @{$levels[$number]}) {
        my $operator = shift @tokens;
        $tree = [$operator, $tree, level($number + 1)];
    }
    return $tree;
}

sub choice {
    my $tree = level(0);
    return $tree unless next_is('?');
    shift @tokens;
    my $yes = choice();
    expect(':');
    return ['?', $tree, $yes, choice()];
}

sub value {
    my ($kind, @of) = @{$_[0]};
    return $of[0] if $kind eq 'number';
    if ($kind eq 'name') { return $variable{$of[0]} // die "unknown $of[0]\n" }
    return value($of[0]) ? value($of[1]) : value($of[2]) if $kind eq '?';
    my ($x, $y, @more) = map { value($_) } @of;
    return 0 - $x if $kind eq 'negate';
    return abs $x if $kind eq 'abs';
    if ($kind =~ /^m/) {
        my @sorted = sort { $a <=> $b } grep { defined } $x, $y, @more;
        return $kind eq 'min' ? $sorted[0] : $sorted[-1];
    }
    return $x + $y if $kind eq '+';
    return $x - $y if $kind eq '-';
    return $x * $y if $kind eq '*';
    return $x < $y ? 1 : 0 if $kind eq '<';
    return $x > $y ? 1 : 0 if $kind eq '>';
    return $x == $y ? 1 : 0 if $kind eq '==';
    if ($kind eq '^') {
        die "negative exponent\n" if $y < 0;
        return $x**$y;
    }
    die "division by zero\n" if $y == 0;
    my $quotient = int($x / $y);
    return $kind eq '/' ? $quotient : $x - $y * $quotient;
}

while (my $line = <STDIN>) {
    next unless $line =~ /\S/;
    my $said = eval {
        @tokens = $line =~ /\d+|[A-Za-z_]\w*|==|\S/g;
        my $target;
        if (@tokens >= 2 && $tokens[1] eq '=') {
            $target = shift @tokens;
            shift @tokens;
            die "syntax\n" if $target !~ /^[A-Za-z_]/ || $calls{$target};
        }
        my $tree = choice();
        die "syntax\n" if @tokens;
        my $result = value($tree);
        $variable{$target} = $result if defined $target;
        defined $target ? '' : "$result\n";
    };
    print defined $said ? $said : "error: $@";
}
SCRIPT
