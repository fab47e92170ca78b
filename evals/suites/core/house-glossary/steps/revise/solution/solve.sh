#!/bin/bash
set -eu
cat > /app/out.txt <<'END'
Every lead checks the share.
Cancel the sign-in by noon.
The weather was fine.
END
