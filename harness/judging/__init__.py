"""The judge as its callers see it, and what its implementations share."""
