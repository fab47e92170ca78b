"""Real agent programs, run in the sandbox as they are, described by data; their models are asked through the proxy."""
