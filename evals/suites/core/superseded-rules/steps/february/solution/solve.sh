#!/bin/bash
set -eu
cat > /app/report.txt <<'END'
Adler GmbH|0202|2025-02-03|18,75
Birke KG|0206|2025-02-19|640,00
Buche OHG|0201|2025-02-01|20300,10
Buche OHG|0205|2025-02-14|5,00
Esche AG|0208|2025-02-27|77,07
END
