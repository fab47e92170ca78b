"""The record on disk: where files lie, how they are written, how they are read back."""
