"""Near ties: results that a last bit decides, and every side of such a decision that is right."""
