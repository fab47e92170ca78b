#!/bin/bash
set -euo pipefail
cd /app/kiln
export LC_ALL=C
old=$(cat VERSION)
IFS=. read -r major minor patch <<< "$old"
entries=$(sed '1d; /^## [0-9]/,$d' NEWS)
case $entries in
    *'[break]'*) major=$((major + 1)) minor=0 patch=0 ;;
    *'[feat]'*) minor=$((minor + 2 - minor % 2)) patch=0 ;;
    *) patch=$((patch + 1)) ;;
esac
version=$major.$minor.$patch
while read -r name; do
    if ! grep -q "\"$name\"" NEWS; then break; fi
done < /skills/cut-release/codenames.txt
echo "$version" > VERSION
sed -i "1s/.*/## next\\n\\n## $version \"$name\"/" NEWS
mapfile -t files < <(find src -type f ! -path 'src/vendor/*' | sort)
sed -i -e "s/^KILN_VERSION=.*/KILN_VERSION=$version/" -e "s/^KILN_BUILD=.*/KILN_BUILD=${#files[@]}/" src/version.sh
for file in NEWS VERSION "${files[@]}"; do
    read -r crc size < <(cksum < "$file")
    printf '%010d %5d %s\n' "$crc" "$size" "$file"
done > MANIFEST
echo "$version $name $(sha256sum MANIFEST | cut -c1-10)" >> RELEASES
