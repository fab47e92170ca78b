# Shared by the steps.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

used() { # bytes of all files under /memory and of their names and folders; too many if it is a link
    [ ! -L /memory ] || { echo 999999; return; }
    [ -d /memory ] || { echo 0; return; }
    local contents names
    contents=$(find /memory -mindepth 1 ! -type d -printf '%s\n' | head -n 10000 \
        | awk '{ sum += $1 } END { printf "%d", sum }')
    names=$(find /memory -mindepth 1 -printf '%f%l' | head -c 10000 | wc -c)
    echo $((contents + names))
}
