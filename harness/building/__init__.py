"""From one source file to a library, or to diagnostics."""
