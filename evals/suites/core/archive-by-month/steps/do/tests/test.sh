#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
file() { # MONTH NAME OLD-PATH MODE TIME: the file has arrived as it was
    local path=/app/archive/$1/$2
    if [ -f "$path" ] && [ ! -L "$path" ] && printf 'data of %s\n' "$3" | cmp -s - "$path" \
        && [ "$(stat -c '%a %Y' "$path")" = "$4 $(date -u -d "$5" +%s)" ]; then
        right=$((right + 1))
    else
        echo "not as it was: $1/$2"
    fi
}

link() { # MONTH NAME FILE: the link has arrived, and leads to that file
    local path=/app/archive/$1/$2
    if [ -L "$path" ] && [[ $(readlink "$path") != /* ]] && [ "$path" -ef "/app/archive/$1/$3" ]; then
        right=$((right + 1))
    else
        echo "leads nowhere: $1/$2"
    fi
}

main() {
    PATH=/usr/bin:/bin
    local right=0 score=0
    if [ -L /app/archive ] || [ -n "$(find /app/archive -mindepth 1 -maxdepth 1 -type l 2>&1)" ]; then
        echo 0 > /logs/verifier/reward.txt
        exit 0
    fi
    file 2023-01 alpha.dat in/alpha.dat 600 '2023-01-31 23:59:59'
    file 2023-02 beta.dat in/beta.dat 644 '2023-02-01 00:00:00'
    file 2023-02 run.sh in/run.sh 755 '2023-02-14 10:00:00'
    file 2022-12 gamma.dat out/gamma.dat 640 '2022-12-31 23:30:00'
    file 2023-01 delta.dat out/delta.dat 444 '2023-01-01 00:30:00'
    file 2023-02 'two words.dat' 'out/late/two words.dat' 664 '2023-02-28 12:00:00'
    file 2022-12 .marker out/late/.marker 644 '2022-12-01 00:00:00'
    file 2024-02 epsilon.dat epsilon.dat 604 '2024-02-29 08:00:00'
    if [ "$right" -gt 0 ]; then
        link 2023-01 latest alpha.dat
        link 2022-12 other gamma.dat
        link 2023-02 words 'two words.dat'
        score=$((right * 100 / 11))
        if [ ! -d /app/spool ] || [ -L /app/spool ] || [ -n "$(ls -A /app/spool)" ] \
            || [ "$(find /app/archive ! -type d | wc -l)" != 11 ]; then
            echo 'something is left over'
            score=$((score > 10 ? score - 10 : 0))
        fi
    fi
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
