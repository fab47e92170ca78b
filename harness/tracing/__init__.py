"""Finished trials as traces: each folder becomes spans, in a child process, which sends them. See README.md."""
