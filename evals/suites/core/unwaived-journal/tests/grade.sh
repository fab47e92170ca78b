# Shared by the steps: each sources this and calls `grade JOURNAL FILE TEXT ...`.

same() { # FILE TEXT: a file of its own, no link, that holds exactly this text; its last line end may be missing
    [ -f "$1" ] && [ ! -L "$1" ] &&
        { printf '%s\n' "$2" | cmp - "$1" || printf '%s' "$2" | cmp - "$1"; }
}

grade() { # JOURNAL FILE TEXT [FILE TEXT ...]: a quarter for the shelf, all files right; the rest if the journal is, too
    PATH=/usr/bin:/bin
    local journal=$1 reward=0 shelf=1
    shift
    while [ $# -gt 0 ]; do
        same "/app/shelf/$1" "$2" || shelf=0
        shift 2
    done
    # A journal without the work that it tells of is worth nothing.
    if [ "$shelf" = 1 ]; then
        reward=0.25
        if same /app/JOURNAL "$journal"; then reward=1; fi
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
