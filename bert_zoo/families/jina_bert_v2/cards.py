"""Jina Embeddings v2's checkpoints."""

from bert_zoo.families.bert.cards import BASE, EMBEDDING, width
from bert_zoo.family import HF, Checkpoint, TextSpec

SMALL = width(512, 4)
CODE = BASE | {"vocab_size": 61056, "query_norm": True}


def released(size: str, config: dict, params: int, note: str, **text) -> Checkpoint:
    """A checkpoint of "jina-embeddings-v2-" and its size and language. All have the same licence."""
    return Checkpoint(
        f"jina_embeddings_v2_{size.replace('-', '_')}",
        config,
        sources=[HF(f"jinaai/jina-embeddings-v2-{size}")],
        provides=EMBEDDING,
        params=params,
        licence="Apache-2.0",
        paper="Jina Embeddings 2: 8192-Token General-Purpose Text Embeddings for Long Documents, arXiv:2310.19923",
        text=TextSpec(max_length=8192, **text),
        aliases=[f"jina-embeddings-v2-{size}"],
        note=f"{note}: mean-pooled, L2-normalised. Trained on texts of 512 tokens; reads 8,192.",
    )


ENGLISH = "A sentence encoder for English"
CHECKPOINTS = [
    released("small-en", SMALL, 32_690_688, ENGLISH),
    released("base-en", BASE, 137_368_320, ENGLISH),
    released(
        "base-code",
        CODE,
        160_869_120,
        "A sentence encoder for English and code (its number of tokens and its tokenizer are not verified)",
        lowercase=None,
    ),
]
