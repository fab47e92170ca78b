"""Records as training data: calls become branches, branches become rows, and every token is accounted for."""
