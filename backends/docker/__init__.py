"""Sandboxes as containers of a Docker engine, spoken to over its own HTTP API."""
