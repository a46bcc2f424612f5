"""Pretraining and training of language models: from text, and a checkpoint or nothing, to a run directory.

`corpus` reads documents, `tokens` keeps them tokenized, `rows` puts their tokens into rows, `batches` are
numbered batches of rows, `masked` and `causal` the two kinds of training, and `run.pretrain` trains.
`vocabularies` trains what tokenizes a text.
"""
