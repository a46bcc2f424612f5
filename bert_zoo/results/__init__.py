"""What the verbs return, and how it prints; without TensorFlow and Keras."""
