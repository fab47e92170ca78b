#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
block() { perl -e 'print chr($ARGV[0]) x $ARGV[1]' "$1" "$2"; }

holds() { # FILE...: each is a regular file with the content that comes in
    local content file
    content=$(mktemp)
    cat > "$content"
    for file; do
        [ -f "$file" ] && [ ! -L "$file" ] && cmp -s "$content" "$file" || { echo "not as it was: $file"; failed=1; }
    done
    rm -f "$content"
}

alone() { # FILE...: nothing else is the same file
    local file
    for file; do
        [ "$(stat -c %h "$file")" = 1 ] || { echo "linked with something: $file"; failed=1; }
    done
}

one() { # FILE...: they are one file, and no other path is
    local file first=$1
    for file; do
        [ "$first" -ef "$file" ] && [ "$(stat -c %h "$file")" = $# ] || return 1
    done
    groups=$((groups + 1))
}

main() {
    PATH=/usr/bin:/bin
    local failed=0 groups=0 score=0
    echo 0 > /logs/verifier/reward.txt
    cd /app/media || exit 0
    holds a/one.raw b/uno.raw 'd/one (copy).raw' < <(block 65 50000)
    holds a/two.raw b/c/two.raw < <(block 66 50000)
    holds b/three.raw b/c/drei.raw d/three.raw d/.three < <(block 67 40000; echo end)
    holds b/one-late.raw < <(block 65 49999; printf Z)
    holds d/two-mid.raw < <(block 66 25000; printf Z; block 66 24999)
    holds a/three.raw < <(block 67 40000; echo END)
    holds d/single.raw < <(echo single)
    holds a/empty b/empty < /dev/null
    alone b/one-late.raw d/two-mid.raw a/three.raw d/single.raw a/empty b/empty
    [ "$(find . ! -type d | wc -l)" = 15 ] || { echo 'files were added or lost'; failed=1; }
    one a/one.raw b/uno.raw 'd/one (copy).raw'
    one a/two.raw b/c/two.raw
    one b/three.raw b/c/drei.raw d/three.raw d/.three
    [ "$failed" = 0 ] && score=$((groups * 100 / 3))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
