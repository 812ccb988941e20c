"""Skills for coding agents."""
