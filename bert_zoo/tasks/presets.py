"""Fine-tuning recipes by name, and those that are published for a task, for any family; scores of texts.

Nothing here imports TensorFlow or Keras.
"""

import difflib
import math
from dataclasses import dataclass

import numpy as np

from bert_zoo.presets import ULMFIT, Preset, Recipe
from bert_zoo.printing import one_line, table
from bert_zoo.registry import registry
from bert_zoo.runtime.answers import PrintedRow, PrintedRows

# -------------------------------------------------------------------------------------------------
# Likelihoods of texts, token by token.
# -------------------------------------------------------------------------------------------------

HEADINGS = ("perplexity", "bits/character", "tokens", "text")


@dataclass(frozen=True, eq=False)
class TextScore(PrintedRow):
    """The likelihood of a text.

    Attributes:
        text: the text.
        tokens: the scored tokens, in order.
        log_probs: natural logarithms of their probabilities, float32 [tokens].
        perplexity: exp of the mean negative log-probability per token.
        bits_per_character: sum of the negative log-probabilities in bits, divided by the number of scored
            characters; for tokens that are bytes, by the number of bytes.
    """

    text: str
    tokens: tuple[str, ...]
    log_probs: np.ndarray
    perplexity: float
    bits_per_character: float

    def cells(self) -> tuple[str, ...]:
        numbers = (f"{self.perplexity:.2f}", f"{self.bits_per_character:.3f}")
        return (*numbers, str(len(self.tokens)), one_line(self.text))

    def bar(self) -> tuple:
        perplexity, bits, tokens, text = self.cells()
        return f"perplexity {perplexity}", None, f"{bits} bits/character, {tokens} tokens: {text}"


class TextScores(PrintedRows):
    """A list of `TextScore`, which prints as a table."""

    def __str__(self) -> str:
        return table([HEADINGS, *(row.cells() for row in self)], ">")


def text_score(
    tokenizer, text: str, ids: np.ndarray, log_probs: np.ndarray, characters: int
) -> TextScore:
    """The score of a text, of which so many characters are scored, from ids and log-probabilities [tokens]."""
    nats = -float(log_probs.sum(dtype=np.float64))
    tokens = tuple(tokenizer.id_to_token(int(index)) for index in ids)
    bits = nats / math.log(2) / characters if characters else math.nan
    return TextScore(text, tokens, log_probs, math.exp(nats / len(ids)), bits)


# Defaults of transformers' Trainer.
TRAINER = Recipe(
    epochs=1,
    schedule="linear_after_warmup",
    weight_decay=0.0,
    epsilon=1e-8,
    bias_correction=True,
)
DOCS = "sentence-transformers examples"
OF_TASKS = (
    Preset(
        "embedding/pairs",
        ("embedding",),
        TRAINER.replace(batch_size=128, max_length=75),
        f"{DOCS}, sentence_transformer/training/nli/training_nli_v2.py",
        note="Published for NLI triplets; used here for all pairs and triplets.",
    ),
    Preset(
        "embedding/scores",
        ("embedding",),
        TRAINER.replace(epochs=4, batch_size=16),
        f"{DOCS}, sentence_transformer/training/sts/training_stsbenchmark.py",
        benchmark="scores",
    ),
    Preset(
        "sparse_embedding/pairs",
        ("sparse_embedding",),
        TRAINER.replace(batch_size=16, learning_rate=2e-5, max_length=256),
        f"{DOCS}, sparse_encoder/training/ms_marco/train_splade_msmarco_mnrl.py",
        note="The factors of the penalty are those of retrievers/train_splade_nq.py.",
    ),
    Preset(
        "late_interaction/pairs",
        ("late_interaction",),
        TRAINER.replace(learning_rate=3e-5, warmup_proportion=0.05, max_length=256),
        f"{DOCS}, multi_vector_encoder/training/msmarco/training_contrastive.py",
        note="The maximum length is our own.",
    ),
    Preset(
        "entity_recognition/spans",
        ("entity_recognition",),
        TRAINER.replace(epochs=5, batch_size=8, learning_rate=5e-5, warmup_proportion=0.1),
        "GLiNER, configs/config_small.yaml",
        note="The encoder's rate is 1e-5 there; here all weights have that of the others. The number of epochs is our own.",
    ),
    Preset(
        "reranking/scores",
        ("reranking",),
        TRAINER.replace(epochs=4, batch_size=64, max_length=256),
        f"{DOCS}, cross_encoder/training/sts/training_stsbenchmark.py",
        note="Published for STS-B; used here for all rerankers.",
    ),
    Preset(
        "setfit",
        ("classification", "multi_label_classification"),
        TRAINER.replace(batch_size=16, learning_rate=2e-5, max_length=256, contrastive_pairs=20),
        "Tunstall et al. 2022 (arXiv:2209.11055), section 4.1",
        note="For 8 to 64 texts per class (--labels_per_class).",
        is_default=False,
    ),
    Preset(
        "ulmfit",
        ("classification", "multi_label_classification", "regression"),
        ULMFIT,
        "Howard and Ruder 2018 (arXiv:1801.06146), section 3.3",
        note="The last of three stages, for any encoder. The learning rate is our own; the paper's 0.01 is for an LSTM. "
        "Before it, adapt the encoder to the task's texts with bert_zoo pretrain --model.",
        is_default=False,
    ),
    Preset(
        "features",
        (
            *("classification", "multi_label_classification", "regression", "reranking"),
            *("token_classification", "multiple_choice"),
        ),
        TRAINER.replace(
            epochs=10, batch_size=32, learning_rate=1e-3, features="mix", head="bilstm"
        ),
        "Devlin et al. 2018 (arXiv:1810.04805), section 5.3; Peters et al. 2018 (arXiv:1802.05365), supplement",
        note="For layers of a frozen encoder; used if --features is given. The number of epochs is our own.",
        is_default=False,
    ),
)
PRESETS: dict[str, Preset] = {
    p.name: p
    for presets in (OF_TASKS, *(family.presets for family in registry().families.values()))
    for p in presets
}


def preset(name: str) -> Preset:
    """Returns a preset by its name.

    Args:
        name: such as "roberta/rte"; `bert_zoo.training.presets.PRESETS` lists all.

    Raises:
        ValueError: the name is unknown; the message suggests the nearest ones.
    """
    if name not in PRESETS:
        nearest = difflib.get_close_matches(name, PRESETS, n=3, cutoff=0)
        raise ValueError(
            f"There is no preset {name!r}. The nearest are {', '.join(nearest)}; "
            "bert_zoo.training.presets.PRESETS lists all of them."
        )
    return PRESETS[name]
