#!/bin/bash
# A function, so that the whole script is read before any program of the agent's runs.
begin() {
    PATH=/usr/bin:/bin
    echo 0 > /logs/verifier/reward.txt
    there=" $(echo /proc/[0-9]*) "
    work=$(mktemp -d)
    # As nobody where that can be done; nothing of the tests lies around while a program of the agent's runs.
    nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs)
    "${nobody[@]}" true 2> /dev/null || nobody=()
    rm -rf /tests/*
    chmod -R a+rX /app
}

jail() { # SECONDS COMMAND...: a clean environment and a deadline
    timeout -k 1 "$1" "${nobody[@]}" env -i PATH=/usr/bin:/bin "${@:2}" 2> /dev/null
}

sweep() { # End what a program left running, before it can see what would have been right.
    local process round
    for round in 1 2 3; do
        for process in /proc/[0-9]*; do
            [[ $there == *" $process "* ]] || kill -9 "${process#/proc/}" 2> /dev/null
        done
    done
}

# One group a line; statements are separated by semicolons.
groups='1+2*3;(1+2)*3;10-4-3;100/7;-100/7;100%7;-100%7;7/-2;7%-2;2*(3+(4-1))*5; 8 / 2 / 2 ;0;1000000*1000000;((((5))));12 % 5 * 3
-2^2;2^3^2;(-2)^3;2^-0;--3;-+-4;2*-3;2--3;-2^-(0);3^2*2;2*3^2;(1-3)^(1+1);-(2)^2^1;+5;2^10-2^9;- -(3)^2
a = 5;a*2;b=a+1;b;a = b*a;a;long_name1 = -3;long_name1^2;a=a;a+b+long_name1;_x=7;_x%a;minimum = 4;minimum;abs1=2;abs1
min(3,1,2);max(4);max(1,2*3,5);abs(-4);abs(3-10)^2;-abs(-2);min(max(1,5),max(2,3));min( -1 , - 2 );2*max(1,2)+1;abs(abs(-1));min(1<2,5);max(1?2:3,0)
1<2;2<1;2>1;3==3;1+1==2;1<2==1;3>2>1;1?2:3;0?2:3;0?1:0?2:3;1?0?4:5:6;1<2?10:20;1+1?2+2:9;-1?1:2;x=3>2?7:8;x;1?5:1/0;0?nope:6;2*(1?3:4)
1/0;nope;1+;5 5;2^-1;(1;x = 1/0;x;3 = 4;min();max = 2;1/0+nope;nope+1/0;abs(1,2);10%0;1?:2;1..2;2**3;y=2;y = nope;y;a b = 3;1=1;=;(1,2);abs;4%(2-2);0?1;2 $ 3;1/0);f(2);0^-1;7'

reference() {
    perl -e '
        my (%value, @tokens);
        sub peek { @tokens ? $tokens[0] : "" }
        sub take { my ($what) = @_; peek() eq $what or die "syntax\n"; shift @tokens }
        sub primary {
            my $token = @tokens ? shift @tokens : die "syntax\n";
            if ($token =~ /^\d/) { return sub { $token } }
            if ($token eq "(") { my $inner = condition(); take(")"); return $inner }
            if ($token =~ /^(min|max|abs)$/) {
                take("(");
                my @each = condition();
                while (peek() eq ",") { shift @tokens; push @each, condition() }
                take(")");
                die "syntax\n" if $token eq "abs" && @each > 1;
                return sub {
                    my @got = sort { $a <=> $b } map { $_->() } @each;
                    $token eq "abs" ? abs $got[0] : $token eq "min" ? $got[0] : $got[-1];
                };
            }
            if ($token =~ /^[A-Za-z_]/) { return sub { exists $value{$token} ? $value{$token} : die "unknown $token\n" } }
            die "syntax\n";
        }
        sub power {
            my $base = primary();
            return $base unless peek() eq "^";
            shift @tokens;
            my $up = sign();
            return sub { my ($x, $n) = ($base->(), $up->()); die "negative exponent\n" if $n < 0; my $r = 1; $r *= $x for 1 .. $n; $r };
        }
        sub sign {
            return power() unless peek() =~ /^[-+]$/;
            my $minus = shift(@tokens) eq "-";
            my $of = sign();
            return sub { my $x = $of->(); $minus ? 0 - $x : $x };
        }
        sub left { # NEXT OPERATORS
            my ($next, %does) = @_;
            my $so_far = $next->();
            while (my $does = $does{peek()}) {
                shift @tokens;
                my ($one, $two) = ($so_far, $next->());
                $so_far = sub { my $x = $one->(); $does->($x, $two->()) };
            }
            return $so_far;
        }
        sub divide { die "division by zero\n" unless $_[1]; int($_[0] / $_[1]) }
        sub product { left(\&sign, "*" => sub { $_[0] * $_[1] }, "/" => \&divide, "%" => sub { $_[0] - $_[1] * divide(@_) }) }
        sub sum { left(\&product, "+" => sub { $_[0] + $_[1] }, "-" => sub { $_[0] - $_[1] }) }
        sub comparison {
            left(\&sum, "<" => sub { $_[0] < $_[1] || 0 }, ">" => sub { $_[0] > $_[1] || 0 }, "==" => sub { $_[0] == $_[1] || 0 });
        }
        sub condition {
            my $if = comparison();
            return $if unless peek() eq "?";
            shift @tokens;
            my $yes = condition();
            take(":");
            my $no = condition();
            return sub { $if->() ? $yes->() : $no->() };
        }
        while (my $line = <STDIN>) {
            next if $line =~ /^\s*$/;
            my $print;
            eval {
                @tokens = $line =~ /\d+|[A-Za-z_]\w*|==|\S/g;
                my $name;
                if (@tokens > 1 && $tokens[0] =~ /^[A-Za-z_]/ && $tokens[1] eq "=") {
                    ($name) = splice @tokens, 0, 2;
                    die "syntax\n" if $name =~ /^(min|max|abs)$/;
                }
                my $tree = condition();
                die "syntax\n" if @tokens;
                my $result = $tree->();
                if (defined $name) { $value{$name} = $result } else { $print = $result + 0 }
                1;
            } or $print = "error: " . ($@ =~ s/\n//r);
            print "$print\n" if defined $print;
        }'
}

main() {
    local case right=0 score
    begin
    for case in {1..6}; do
        sed -n "${case}p" <<< "$groups" | tr ';' '\n' > "$work/$case.in"
        jail 5 perl /app/calc.pl < "$work/$case.in" > "$work/$case.out"
        status[case]=$?
    done
    sweep
    for case in {1..6}; do
        # What fails at everything is right about the last group by accident.
        [ "$case" = 6 ] && [ "$right" = 0 ] && break
        if [ "${status[case]}" = 0 ] && cmp <(head -c 10000 "$work/$case.out") <(reference < "$work/$case.in"); then
            right=$((right + 1))
        else
            echo "wrong for group $case"
        fi
    done
    score=$((right * 100 / 6))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
