#!/bin/bash
set -eu
export LC_ALL=C
cd /app
same() { # A B: the same content, or neither there
    if [ -e "$1" ] && [ -e "$2" ]; then cmp -s "$1" "$2"; else [ ! -e "$1" ] && [ ! -e "$2" ]; fi
}
take() { # FROM TO
    [ -e "$1" ] || return 0
    mkdir -p "$(dirname "$2")"
    cp "$1" "$2"
}
mkdir -p merged
: > conflicts.txt
{ cd base; find . -type f; cd ../ours; find . -type f; cd ../theirs; find . -type f; } | sed 's#^\./##' | sort -u |
    while IFS= read -r path; do
        if same "ours/$path" "theirs/$path" || same "theirs/$path" "base/$path"; then
            take "ours/$path" "merged/$path"
        elif same "ours/$path" "base/$path"; then
            take "theirs/$path" "merged/$path"
        else
            echo "$path" >> conflicts.txt
            if [ -e "ours/$path" ]; then
                take "ours/$path" "merged/$path"
                take "theirs/$path" "merged/$path.theirs"
            else
                take "theirs/$path" "merged/$path"
            fi
        fi
    done
