# set by the release
KILN_VERSION=3.8.2
KILN_BUILD=4
