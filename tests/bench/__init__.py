"""For developers: what is measured and published, on this machine and on one with a GPU; recordings and pages."""
