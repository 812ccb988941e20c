"""What is found out about a task by running its reference."""
