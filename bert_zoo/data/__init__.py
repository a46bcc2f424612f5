"""Data sets: GLUE (`glue`) and the small labelled set that ships with the package (`messages`).

Text to pretrain on: `corpus` reads documents, `token_shards` keeps them tokenized, `pretraining_rows` makes
rows of them; `subword_vocabularies` trains what tokenizes them.
"""
