#!/bin/bash
set -eu
cat > /app/setting.pl <<'SCRIPT'
#!/usr/bin/perl
use strict;
use warnings;

my ($file, $wanted_section, $wanted_key) = @ARGV;
my $name = qr/[A-Za-z0-9_.-]+/;
my ($section, %value) = ('global');

sub unquote {
    my ($text) = @_;
    return $text unless $text =~ /^"(.*)"$/s;
    ($text = $1) =~ s/\\(["\\])/$1/g;
    return $text;
}

open my $in, '<', $file or exit 2;
while (my $line = <$in>) {
    $line =~ s/^\s+|\s+$//g;
    next if $line =~ /^([#;]|$)/;
    if ($line =~ /^\[($name)\]$/) {
        $section = lc $1;
    } elsif ($line =~ /^($name)[ \t]*(\+?)=[ \t]*(.*)$/) {
        my ($key, $add, $text) = (lc $1, $2, unquote($3));
        my $old = $value{$section}{$key};
        $text = "$old $text" if $add && defined $old && length $old;
        $value{$section}{$key} = $text;
    } else {
        exit 2;
    }
}
my $found = $value{lc $wanted_section}{lc $wanted_key};
exit 1 unless defined $found;
print "$found\n";
SCRIPT
