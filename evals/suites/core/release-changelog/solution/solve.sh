#!/bin/bash
set -euo pipefail
cat > /app/CHANGELOG.md <<'LINES'
## Added

- export: write spreadsheets with frozen header rows (#813)
- theme: dark colours follow the system (#824)
- BREAKING api: remove the endpoint /v1/lists (#829)
- import: read calendars in the iCal format (#838)
- export: write spreadsheets with a sheet for each folder (#843)

## Fixed

- login: keep the session when the clock of the client is wrong (#815)
- export: keep leading zeros of numbers in text columns (#827)
- print: use light colours on paper (#833)
- BREAKING api: answer 404 instead of 200 for unknown lists (#836)

## Changed

- report: render long tables in half the time (#820)
- mail: build messages from templates (#831)

## Security

- upload: refuse archives with absolute paths (#822) CVE-2031-10441
- session: sign cookies with a key of its own (#840) CVE-2031-10502
LINES
