"""The index over jobs: derived from the files, which alone are the truth; it may be deleted at any time."""
