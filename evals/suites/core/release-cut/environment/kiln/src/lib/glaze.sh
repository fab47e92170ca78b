glaze() { echo "glaze $1"; }
