"""Sandboxes as microVMs of E2B, through its own SDK.

What is particular here: CPU and memory belong to the template that is built for a task, commands pass through a login
shell and come back as text, and a sandbox lives on a lease of at most an hour (on the smallest plan) that is renewed.
"""
