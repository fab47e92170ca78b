"""ATIF, the trajectory format: its model, a strict reader, and a writer that is valid on disk at every moment."""
