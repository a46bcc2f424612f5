"""The text of a pretraining, tokenized once and kept with the run."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import tensorflow as tf

from bert_zoo.data.corpus import Corpus, CorpusCounts
from bert_zoo.data.language_modelling import misfit
from bert_zoo.data.token_shards import TokenShards, write_token_shards


def tokenized(
    corpus: Corpus, documents: Iterable[Sequence[str]], preprocessor, directory: Path
) -> TokenShards:
    """The tokens of a text, or of its part; made where they are not there yet.

    Args:
        corpus: the text.
        documents: its documents, as they are tokenized.
        preprocessor: what tokenizes.
        directory: for the tokens.

    Raises:
        ValueError: the part has no documents, or tokens that the vocabulary lacks.
    """
    try:
        shards = write_token_shards(documents, preprocessor, directory)
    except tf.errors.InvalidArgumentError as error:
        raise misfit("The text", error) from error
    except ValueError:
        if corpus.counts.documents:
            raise
        raise ValueError(
            f"Of {corpus.counts.other_part:,} documents none is left for the part {corpus.part!r}. Blank "
            "lines, or lines where a line is a document, divide them; --held_out says which share is "
            "set aside, 0 for none."
        ) from None
    counts = CorpusCounts(**shards.index["corpus"])
    print(f"{corpus.part.replace('_', ' ').capitalize()}: {counts}; {shards.num_tokens:,} tokens.")
    return shards
