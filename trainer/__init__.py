"""Training on exported trajectories; reads the public record format only."""
