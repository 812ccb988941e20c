"""Pages that grow while runs go on."""
