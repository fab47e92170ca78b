"""From exported rows to what one optimiser step trains on: read, masked, filtered, grouped, collated."""
