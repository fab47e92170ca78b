#!/bin/bash
. "$(dirname "$0")/version.sh"
echo "kiln $KILN_VERSION"
