"""From a name or a directory to a model with weights, and from a model to a directory."""
