"""Sandboxes of the Daytona cloud (or a Daytona of one's own), through its asynchronous SDK."""
