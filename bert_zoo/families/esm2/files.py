"""ESM-2's files: the vocabulary, and weights with the frequencies of rotary positions among them."""

from typing import Any

import numpy as np

from bert_zoo.config import ConfigError
from bert_zoo.text.files import VocabularyFiles, read_named_tokens
from bert_zoo.text.format import TokenizerParts
from bert_zoo.weights.formats import HuggingFace

# The types that frequencies may have been rounded to.
KEPT_IN = ("float32", "float16")


def written_frequencies(config: Any) -> dict[str, np.ndarray]:
    from bert_zoo.layers.encoder_stack import frequencies

    found = frequencies(config.width_of_head, config.rope_theta, 1.0, config.rope_kept_in)
    return {"rotary_embeddings.inv_freq": found}


class WithFrequencies(HuggingFace):
    """Files hold the frequencies of rotary positions, which transformers reads: earlier ones in each layer."""

    def inferred_fields(self, source, config, unsaid) -> dict[str, Any]:
        stored = [source[key] for key in source if key.endswith(".inv_freq")]
        for kind in KEPT_IN if stored else ():
            (ours,) = written_frequencies(config.replace(rope_kept_in=kind)).values()
            if all(x.shape == ours.shape and np.allclose(x, ours, 1e-5, 0) for x in stored):
                return {"rope_kept_in": kind}
        if stored:
            raise ConfigError(
                f"The frequencies of rotary positions in {source.location}, rotary_embeddings.inv_freq, do not follow "
                f"from rope_theta {config.rope_theta}. Correct rope_theta in config.json."
            )
        return {}


def read_residues(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads vocab.txt with the special tokens of the files beside it; `overrides` take precedence."""
    files.require("vocab.txt")
    vocabulary = [line.strip() for line in files.lines("vocab.txt")]
    named = read_named_tokens(files)
    arguments = {
        "vocabulary": vocabulary,
        **named.special,
        "added_tokens": named.added_to(vocabulary, files.directory),
        **overrides,
    }
    maker = "bert_zoo.families.esm2.text:ResidueTokenizer"
    return TokenizerParts(maker, arguments, files.path("vocab.txt"))
