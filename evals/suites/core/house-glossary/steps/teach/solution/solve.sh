#!/bin/bash
set -eu
mkdir -p /memory
echo 'the glossary and its rules' > /memory/glossary.md
cat > /app/out.txt <<'END'
The guest reported a finding.
We sent a credit note.
"The customer is king" is not our motto.
Nothing else happened.
END
