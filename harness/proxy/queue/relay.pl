#!/usr/bin/perl
# Turns HTTP requests on the loopback into files, and files into responses. Needs perl with Socket and Fcntl only.
#
#   relay.pl start DIR                          listen in the background; prints "PORT SESSION"
#   relay.pl poll DIR SESSION SECONDS ACKS      wait for news, print it; ACKS are indices received before, by commas
#   relay.pl deliver DIR SESSION INDEX PART LAST    one piece of a response, from standard input
#   relay.pl stop DIR                           end it, and remove DIR
#
# News: "R index size\n" and as many bytes, a request; "G index\n", its client has gone; "E\n", there is no such relay.
# A request stays in DIR/requests until a later poll acknowledges it, so that none is lost with the output of one poll.
use strict;
use warnings;
use Fcntl qw(:flock O_RDWR O_CREAT);
use Socket;

my $MAX_HEAD = 1 << 16;
my $MAX_BODY = 64 << 20;
my $MAX_NEWS = 32 << 20;
my $TICK = 0.02;

my ($command, $dir, @rest) = @ARGV;
my %commands = (start => \&start, poll => \&poll, deliver => \&deliver, stop => \&stop);
die "usage: relay.pl start|poll|deliver|stop DIR ...\n" unless $command && $dir && $commands{$command};
exit $commands{$command}->(@rest);

sub slurp {
    my ($path) = @_;
    open(my $file, '<:raw', $path) or return undef;
    local $/;
    my $data = <$file>;
    return defined $data ? $data : '';
}

sub publish {    # whole or not at all
    my ($path, $data) = @_;
    my $draft = "$dir/drafts/" . join('-', $$, int(rand(1e9)));
    open(my $file, '>:raw', $draft) or die "$draft: $!\n";
    (print $file $data and close $file) or die "$draft: $!\n";
    rename($draft, $path) or die "$path: $!\n";
}

sub nap { select(undef, undef, undef, $TICK) }

sub start {
    umask 077;
    mkdir "$dir/$_" for qw(requests responses open gone drafts);
    my $session = join '', map { sprintf '%08x', int(rand(2**32)) } 1 .. 2;
    socket(my $listener, PF_INET, SOCK_STREAM, getprotobyname('tcp') || 6) or die "socket: $!\n";
    setsockopt($listener, SOL_SOCKET, SO_REUSEADDR, pack('l', 1));
    bind($listener, sockaddr_in(0, INADDR_LOOPBACK)) or die "bind: $!\n";
    listen($listener, 1024) or die "listen: $!\n";
    my ($port) = sockaddr_in(getsockname($listener));
    my $pid = fork;
    die "fork: $!\n" unless defined $pid;
    if ($pid == 0) {
        setpgrp(0, 0);
        open(STDIN, '<', '/dev/null');
        open(STDOUT, '>', '/dev/null');
        open(STDERR, '>', '/dev/null');
        serve($listener);
        exit 0;
    }
    publish("$dir/pid", $pid);
    publish("$dir/session", $session);
    print "$port $session\n";
    return 0;
}

sub serve {
    my ($listener) = @_;
    $SIG{CHLD} = 'IGNORE';
    $SIG{PIPE} = 'IGNORE';
    while (1) {
        accept(my $client, $listener) or next;
        my $pid = fork;
        if (defined $pid && $pid == 0) {
            close $listener;
            srand;
            answer($client);
            exit 0;
        }
        close $client;
    }
}

sub answer {
    my ($client) = @_;
    my $request = read_request($client);
    return unless defined $request;
    my $index = next_index();
    publish("$dir/open/$index", '');
    publish("$dir/requests/$index", $request);
    my $part = 0;
    while (1) {
        for my $last ('', '.last') {
            my $path = "$dir/responses/$index.$part$last";
            my $data = slurp($path);
            next unless defined $data;
            unlink $path;
            my $sent = send_all($client, $data);
            if ($last || !$sent) {
                unlink "$dir/open/$index";
                publish("$dir/gone/$index", '') unless $sent;
                return;
            }
            $part++;
        }
        my $ready = '';
        vec($ready, fileno($client), 1) = 1;
        if (select($ready, undef, undef, $TICK)) {
            my $got = sysread($client, my $ignored, 4096);
            next if $got;    # a second request on this connection: its answer would be the first one's
            unlink "$dir/open/$index";
            publish("$dir/gone/$index", '');
            return;
        }
    }
}

sub next_index {
    sysopen(my $file, "$dir/counter", O_RDWR | O_CREAT) or die "counter: $!\n";
    flock($file, LOCK_EX);
    my $index = (<$file> || 0) + 1;
    seek($file, 0, 0);
    print $file $index;
    close $file;
    return $index;
}

sub read_request {
    my ($client) = @_;
    my $data = '';
    my $end;
    while (($end = index($data, "\r\n\r\n")) < 0) {
        return refuse($client, '431 Request Header Fields Too Large') if length($data) > $MAX_HEAD;
        return undef unless more($client, \$data);
    }
    my $head = substr($data, 0, $end + 4);
    send_all($client, "HTTP/1.1 100 Continue\r\n\r\n") if $head =~ /^expect:\s*100-continue/mi;
    if ($head =~ /^transfer-encoding:.*chunked/mi) {
        my $at = $end + 4;
        while (1) {
            my $line;
            while (($line = index($data, "\r\n", $at)) < 0) { return undef unless more($client, \$data) }
            return refuse($client, '400 Bad Request') unless substr($data, $at, $line - $at) =~ /^([0-9a-fA-F]{1,8})/;
            my $size = hex $1;
            return refuse($client, '413 Content Too Large') if $line + $size > $MAX_BODY;
            $at = $line + 2 + $size + 2;
            while (length($data) < $at) { return undef unless more($client, \$data) }
            return substr($data, 0, $at) if $size == 0;
        }
    }
    my $size = $head =~ /^content-length:\s*(\d{1,12})/mi ? $1 : 0;
    return refuse($client, '413 Content Too Large') if $size > $MAX_BODY;
    while (length($data) < length($head) + $size) { return undef unless more($client, \$data) }
    return substr($data, 0, length($head) + $size);
}

sub more {
    my ($client, $data) = @_;
    return sysread($client, $$data, 1 << 16, length $$data);
}

sub refuse {
    my ($client, $status) = @_;
    send_all($client, "HTTP/1.1 $status\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    return undef;
}

sub send_all {
    my ($client, $data) = @_;
    my $at = 0;
    while ($at < length $data) {
        my $sent = syswrite($client, $data, length($data) - $at, $at);
        return 0 unless defined $sent;
        $at += $sent;
    }
    return 1;
}

sub is_session {
    my ($session) = @_;
    my $own = slurp("$dir/session");
    my $pid = slurp("$dir/pid");
    return defined $own && $own eq $session && defined $pid && kill(0, $pid);
}

sub numbers_in {
    my ($folder) = @_;
    opendir(my $handle, "$dir/$folder") or return ();
    return sort { $a <=> $b } grep { /^\d+$/ } readdir $handle;
}

sub poll {
    my ($session, $seconds, $acks) = @_;
    binmode STDOUT;
    unlink "$dir/requests/$_" for grep { /^\d+$/ } split /,/, $acks || '';
    my $until = time + $seconds;
    while (1) {
        my $news = '';
        for my $index (numbers_in('gone')) {
            unlink "$dir/gone/$index";
            $news .= "G $index\n";
        }
        for my $index (numbers_in('requests')) {
            my $size = -s "$dir/requests/$index";
            next unless defined $size;
            last if length($news) && length($news) + $size > $MAX_NEWS;
            my $data = slurp("$dir/requests/$index");
            $news .= sprintf("R %d %d\n", $index, length $data) . $data if defined $data;
        }
        $news = "E\n" unless length $news || is_session($session);
        if (length $news || time >= $until) {
            print $news;
            return 0;
        }
        nap();
    }
}

sub deliver {
    my ($session, $index, $part, $last) = @_;
    binmode STDIN;
    local $/;
    my $data = <STDIN>;
    die "no such relay\n" unless is_session($session);
    die "no request $index waits for a response\n" unless $index =~ /^\d+$/ && -e "$dir/open/$index";
    publish("$dir/responses/$index." . int($part) . ($last ? '.last' : ''), defined $data ? $data : '');
    return 0;
}

sub stop {
    my $pid = slurp("$dir/pid");
    kill('KILL', -$pid) if $pid && $pid =~ /^\d+$/ && $pid > 1;
    system('rm', '-rf', $dir);
    return 0;
}
