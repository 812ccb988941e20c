"""Untrusted code in a cage: tiers, limits, reaping."""
