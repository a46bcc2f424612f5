"""Weights: reading tensors (sources, cache) and binding them to variables."""
