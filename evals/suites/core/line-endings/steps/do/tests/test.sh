#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
wrong() {
    echo "$1"
    failed=1
}

holds() { # FILE MODE TEXT: a file of its own, with this mode and exactly these bytes (printf's escapes)
    [ -f "$1" ] && [ ! -L "$1" ] || { wrong "$1 is not a file"; return; }
    [ "$(stat -c %a "$1")" = "$2" ] || wrong "$1 has another mode"
    printf "$3" | cmp - "$1" || wrong "$1 has other bytes"
}

untouched() { # FILE TEXT
    holds "$1" 644 "$2"
    [ "$(stat -c %Y "$1")" = 1614834367 ] || wrong "$1 was touched"
}

main() {
    PATH=/usr/bin:/bin
    local failed=0 reward=0
    cd /app || exit 0
    holds docs/install.txt 640 'Install\n=======\n\nRun setup.\n'
    holds docs/guide/first.txt 755 'First\nsecond without an end'
    holds docs/guide/progress.txt 644 'Progress: 10%%\r20%%\r30%%\ndone\n'
    holds docs/old/blank.txt 644 '\n\n'
    untouched docs/fine.txt 'Already fine\n'
    untouched docs/old/mac.txt 'One\rtwo\rthree\r'
    untouched docs/img/logo.bin 'MZ\0\r\n\0\r\n'
    untouched docs/guide/README 'Not a text file by name\r\n'
    untouched docs/old/NOTES.TXT 'upper case\r\n'
    untouched docs/empty.txt ''
    [ "$(find docs ! -type d | wc -l)" = 10 ] || wrong 'files were added or removed'
    [ "$failed" = 0 ] && reward=1
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
