#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
has() { # PATH TEXT: a file with that line; no text is an empty file
    local file=/app/merged/$1
    [ -f "$file" ] && [ ! -L "$file" ] || return 1
    if [ -n "$2" ]; then printf '%s\n' "$2" | cmp -s - "$file"; else [ ! -s "$file" ]; fi
}

absent() { # PATH
    [ ! -e "/app/merged/$1" ] && [ ! -L "/app/merged/$1" ]
}

listed() { # PATH
    [[ $list == *$'\n'"$1"$'\n'* ]]
}

count() { # PATH TEST...: counts what is right
    local path=$1
    shift
    if "$@"; then right=$((right + 1)); else echo "wrong: $path"; fi
}

plain() { has "$1" "$2" && ! listed "$1" && absent "$1.theirs"; }
gone() { absent "$1" && ! listed "$1" && absent "$1.theirs"; }
clash() { has "$1" "$2" && listed "$1" && has "$1.theirs" "$3"; }
half() { has "$1" "$2" && listed "$1" && absent "$1.theirs"; }

main() {
    PATH=/usr/bin:/bin LC_ALL=C
    local right=0 off=0 score list=$'\n' path
    echo 0 > /logs/verifier/reward.txt
    if [ -L /app/merged ] || [ ! -d /app/merged ] || [ -n "$(find /app/merged -type l)" ]; then exit 0; fi
    if [ -f /app/conflicts.txt ] && [ ! -L /app/conflicts.txt ]; then list+=$(head -c 10000 /app/conflicts.txt)$'\n'; fi
    # What a copy of one of the folders has, too, is worth something only beside a real merge.
    plain conf/app.ini port=2 && plain conf/db.ini db=7 || exit 0
    for path in 'README:readme 1' conf/app.ini:port=2 conf/db.ini:db=7 conf/both.ini:x=9 'new/ours only.txt:o' \
        new/theirs.txt:t new/same.txt:s lib/a/deep.txt:d2 lib/a/empty:; do
        count "${path%:*}" plain "${path%:*}" "${path##*:}"
    done
    for path in docs/gone-here.txt docs/gone-there.txt docs/gone-both.txt lib/b/gone/last.txt; do
        count "$path" gone "$path"
    done
    count conf/clash.ini clash conf/clash.ini y=2 y=3
    count new/clash.txt clash new/clash.txt p q
    count docs/kept-there.txt half docs/kept-there.txt v2
    count docs/kept-here.txt half docs/kept-here.txt v3
    score=$((right * 100 / 17))
    if [ "$list" != $'\nconf/clash.ini\ndocs/kept-here.txt\ndocs/kept-there.txt\nnew/clash.txt\n' ]; then
        echo 'the list of conflicts differs'
        off=$((off + 10))
    fi
    if [ "$(find /app/merged ! -type d | wc -l)" != 15 ] || [ -n "$(find /app/merged -type d -empty)" ]; then
        echo 'there is something that should not be there, or something is missing'
        off=$((off + 10))
    fi
    score=$((score > off ? score - off : 0))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
