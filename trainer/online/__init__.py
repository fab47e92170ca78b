"""The closed loop: collect, train, serve, collect again, without waiting and without drifting."""
