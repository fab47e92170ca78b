cool() { echo "cooling to $1"; }
