"""What limits a kernel."""
