"""One job, or two next to each other, as a page that a person reads: a single file without network or server."""
