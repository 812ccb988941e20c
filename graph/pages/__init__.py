"""What people look at: HTML pages, plots and tables."""
