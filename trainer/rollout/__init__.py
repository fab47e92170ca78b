"""Rollouts for training: a server of the policy that is being trained, and how new weights get into any server."""
