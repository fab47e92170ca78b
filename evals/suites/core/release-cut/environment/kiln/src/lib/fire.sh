fire() { echo "heating to $1"; }
