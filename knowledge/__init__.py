"""What agents know: prompts and the playbook."""
