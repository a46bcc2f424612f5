"""Pretraining and training of language models on text, from scratch or from a checkpoint.

`corpus` reads documents, `tokens` stores their token ids, `rows` arranges tokens in rows, and `batches` numbers
batches of rows. `masked` and `causal` are the two kinds of training, and `run.pretrain` trains and writes a run
directory. `vocabularies` makes vocabularies.
"""
