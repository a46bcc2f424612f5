"""Weights: where tensors come from (sources, cache) and how they are bound to variables."""
