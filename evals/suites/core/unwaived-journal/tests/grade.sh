# Shared by the steps: each sources this and calls `grade JOURNAL FILE TEXT ...`.

same() { # FILE TEXT: a file of its own, no link, that holds exactly this text; its last line end may be missing
    [ -f "$1" ] && [ ! -L "$1" ] &&
        { printf '%s\n' "$2" | cmp - "$1" || printf '%s' "$2" | cmp - "$1"; }
}

grade() { # JOURNAL FILE TEXT [FILE TEXT ...]: half for the shelf, all files right, and half for the journal
    PATH=/usr/bin:/bin
    local journal=$1 shelf=1 halves=0
    shift
    while [ $# -gt 0 ]; do
        same "/app/shelf/$1" "$2" || shelf=0
        shift 2
    done
    # A journal without the work that it tells of is worth nothing.
    if [ "$shelf" = 1 ]; then
        halves=1
        same /app/JOURNAL "$journal" && halves=2
    fi
    case $halves in
        2) echo 1 ;;
        1) echo 0.5 ;;
        *) echo 0 ;;
    esac > /logs/verifier/reward.txt
    exit 0
}
