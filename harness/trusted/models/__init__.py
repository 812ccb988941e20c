"""Whole models: captured, clocked, cut into regions. Runs in a child that has torch."""
