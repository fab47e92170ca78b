"""Is training still sound? What a step's numbers mean, three invariants over them, and what a crash most likely was."""
