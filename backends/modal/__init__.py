"""Sandboxes in the Modal cloud, through its own SDK."""
