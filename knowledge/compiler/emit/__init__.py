"""C++ for elements, operands and files: what all schedules write."""
