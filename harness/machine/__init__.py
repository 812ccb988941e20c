"""What this machine can do at best: measured once, kept on disk."""
