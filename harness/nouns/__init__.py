"""What everything else in the harness speaks of."""
