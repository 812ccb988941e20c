"""Whole models: captured, planned, made faster region by region, and accepted as a whole."""
