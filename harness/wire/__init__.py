"""What the judge's processes say to each other."""
