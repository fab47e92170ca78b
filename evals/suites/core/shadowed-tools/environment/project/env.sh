# The tools of the build come before those of the system.
export LC_ALL=C
export PATH=/app/tools/bin:$PATH
