"""Tiny SentencePiece models for the vocabularies of XLM-RoBERTa and ALBERT."""

import io
import pathlib

import numpy as np
import sentencepiece

_WORDS = (
    "the is was it in on of and to cat dog bird sat ran saw tree river house red blue big small "
    "good bad very not this that he she they we you day night city film book tea walking walked "
    "quickly higher highest unable hopeful 12 37 405 , . ! ? ' -"
).split()
_SENTENCES = 400


def train_sentencepiece(path: pathlib.Path, num_pieces: int, **options) -> None:
    """Writes a unigram model of exactly `num_pieces`, trained on random rows of words.

    Text is taken as it is, without normalization: the tables for it would be most of the file.
    """
    rng = np.random.default_rng(0)
    sentences = (" ".join(rng.choice(_WORDS, 9)) for _ in range(_SENTENCES))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences,
        model_writer=model,
        model_type="unigram",
        vocab_size=num_pieces,
        character_coverage=1.0,
        normalization_rule_name="identity",
        num_threads=1,
        minloglevel=2,
        **options,
    )
    path.write_bytes(model.getvalue())
