"""Sandboxes in the Modal cloud, through its own SDK.

What Modal lacks, and what stands in for it:

- a user per command: its containers run as root, who becomes the user inside (`backends.remote.users`);
- a longer life for a live sandbox: a clock inside that can be set anew (`backends.modal.entrypoint`);
- a limit of processes, a disk of another size: refused before anything is made.

A workspace's image builder must be 2025.06 or later: earlier ones demand a python in every image.
"""
