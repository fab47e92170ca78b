#!/bin/bash
set -eu
cat > /app/slugify.sh <<'SCRIPT'
#!/bin/bash
# Usage: slugify.sh TITLE
# Prints TITLE as a slug and exits 0; exits 1 and prints nothing on stdout if no letter or digit is in it.
export LC_ALL=C
slug=$(printf '%s' "$1" | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9' '-')
slug=${slug#-}
slug=${slug%-}
[ -n "$slug" ] || exit 1
printf '%s\n' "$slug"
SCRIPT
