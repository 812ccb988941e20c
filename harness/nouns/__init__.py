"""What everything else speaks of: immutable values, below all other rooms."""
