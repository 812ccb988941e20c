"""What is said between the judge's processes: frames, memory layouts, the ABI. Both children read it."""
