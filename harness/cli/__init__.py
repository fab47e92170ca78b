"""The console script: each file parses, calls one function, renders, and returns an exit code."""
