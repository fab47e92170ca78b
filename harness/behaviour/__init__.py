"""What an agent did, as numbers: pure functions over a trajectory, fed step by step or read as a whole."""
