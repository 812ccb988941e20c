"""The playbook: which recipe writes a forward first, and which kernels lie near one."""
