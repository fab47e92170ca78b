pad() { printf '%-10s' "$1"; }
