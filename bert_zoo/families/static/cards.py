"""Cards of released tables of token vectors, and settings for training tables."""

from bert_zoo.config import UNLIMITED
from bert_zoo.family import HF, Checkpoint, Pooling, TextSpec, read_table
from bert_zoo.presets import Preset, Recipe

PRESETS = (
    Preset(
        "static/tables",
        ("classification", "multi_label_classification", "regression"),
        Recipe(learning_rate=1e-2, bias_correction=True),
        "measured by this project: docs/families/static.md",
        note="A text moves few rows of a table, and those only a little at rates for transformers.",
    ),
)
UNVERIFIED = "Not verified here: size and licence are those that its authors name. `load` reads the actual size from the file."
# sentence-transformers', trained from random numbers; and model2vec's, distilled from an encoder and trained further.
SENTENCE_TRANSFORMERS = {
    "pooling": Pooling(normalize=False),
    "text": TextSpec(None, UNLIMITED),
    "licence": "Apache-2.0",
    "paper": "Train 400x faster Static Embedding Models, https://huggingface.co/blog/static-embeddings",
}
MODEL2VEC = {
    "text": TextSpec(None, 512),
    "licence": "MIT",
    "paper": "Model2Vec: Fast State-of-the-Art Static Embeddings, https://github.com/MinishLab/model2vec",
}
NOTES = {
    "retrieval": "English, for questions and passages.",
    "similarity": "Multilingual, for sentences that mean the same.",
    "potion": "English.",
    "potion_retrieval": "English, for questions and passages.",
}
TABLE = read_table("""
    name                                kind              tokens   width  repo
    static_retrieval_mrl_en_v1          retrieval         30_522   1024   sentence-transformers/static-retrieval-mrl-en-v1
    static_similarity_mrl_multilingual_v1  similarity     105_879  1024   sentence-transformers/static-similarity-mrl-multilingual-v1
    potion_base_8m                      potion            29_528   256    minishlab/potion-base-8M
    potion_base_32m                     potion            63_091   512    minishlab/potion-base-32M
    potion_retrieval_32m                potion_retrieval  63_091   512    minishlab/potion-retrieval-32M
""")


def released(name: str, kind: str, tokens: int, width: int, repo: str) -> Checkpoint:
    is_model2vec = kind.startswith("potion")
    release = MODEL2VEC if is_model2vec else SENTENCE_TRANSFORMERS
    return Checkpoint(
        name,
        {"vocab_size": tokens, "hidden_size": width},
        sources=[HF(repo)],
        provides=frozenset({"encoder"}),
        params=tokens * width,
        note=f"{NOTES[kind]} {UNVERIFIED}",
        **release,
    )


CHECKPOINTS = [released(**row) for row in TABLE]
