#!/bin/bash
set -eu
mkdir -p /app/tools
cat > /app/tools/jsonq <<'SCRIPT'
#!/usr/bin/perl
use strict;
use warnings;

my %plain = ('n' => ' ', 't' => ' ', '"' => '"', '\\' => '\\', '/' => '/');

sub text {
    my ($raw) = @_;
    $raw =~ s{\\(?:u00([0-9a-fA-F]{2})|(.))}{
        if (defined $1) { my $character = chr hex $1; utf8::encode($character); $character } else { $plain{$2} }
    }ge;
    return $raw;
}

while (my $line = <STDIN>) {
    next unless $line =~ /\S/;
    my %value;
    while ($line =~ /"((?:[^"\\]|\\.)*)"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,}]+))/g) {
        my ($name, $string, $other) = ($1, $2, $3);
        $value{$name} = defined $string ? text($string) : $other eq 'null' ? '' : $other;
    }
    print join("\t", map { $_ // '' } @value{@ARGV}), "\n";
}
SCRIPT
chmod +x /app/tools/jsonq
bash /app/export.sh /app/people.jsonl > /app/people.txt
