"""One run of training as a page: curves, invariants, findings, remedies, filters, settings."""
