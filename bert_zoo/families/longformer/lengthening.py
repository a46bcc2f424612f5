"""Makes Longformers from shorter encoders, as the released ones were made from RoBERTa.

Source: Beltagy et al. 2020 (arXiv:2004.05150), section 5; allenai/longformer
scripts/convert_model_to_long.ipynb.
"""

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from bert_zoo.config import EncoderConfig
from bert_zoo.families import xlm_roberta
from bert_zoo.families.albert import family as albert
from bert_zoo.families.longformer.config import LongformerConfig
from bert_zoo.text.byte_bpe_files import read_byte_bpe
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TokenizerParts
from bert_zoo.text.sentencepiece_files import read_sentencepiece
from bert_zoo.text.wordpiece_files import read_wordpiece

# Families with BERT's layers and a vocabulary that `read_vocabulary` reads.
LENGTHENED = ("bert", "roberta", "albert", "electra", "spanbert", "xlm_roberta")
POSITIONS = "encoder/embeddings/position_embedding/embeddings"


def read_vocabulary(files: VocabularyFiles, options: dict[str, Any]) -> TokenizerParts:
    """Reads RoBERTa's vocabulary, or that of the family that a model was made from."""
    for page in (albert, xlm_roberta):
        scheme = page.SCHEME
        if files.has(scheme.model_file):
            return read_sentencepiece(files, {"scheme": scheme, **options})
    kind = files.json("tokenizer.json").section("model").take("type", str)
    is_wordpiece = files.has("vocab.txt") or kind == "WordPiece"
    return (read_wordpiece if is_wordpiece else read_byte_bpe)(files, options)


def lengthened_config(
    shorter: EncoderConfig, max_length: int, window: int, sep_id: int
) -> LongformerConfig:
    """Returns the configuration of a Longformer with the same layers and RoBERTa's positions."""
    known = {field.name for field in fields(LongformerConfig)}
    same = {name: value for name, value in shorter.to_dict().items() if name in known}
    longer = {
        "positions_after_padding": True,
        "max_positions": shorter.pad_id + 1 + max_length,
        "attention_window": window,
        "sep_id": sep_id,
    }
    return LongformerConfig(**{**same, **longer})


def lengthened_weights(
    shorter: EncoderConfig,
    longer: LongformerConfig,
    values: Mapping[str, np.ndarray],
    paths: Collection[str],
) -> dict[str, np.ndarray]:
    """Makes a Longformer's weights from a shorter model's, by their paths in a task model."""
    found = dict(values)
    table, first = values[POSITIONS], longer.position_offset
    # Rows before the first position are unused.
    before = np.resize(table[: shorter.position_offset], (first, table.shape[1]))
    after = table[shorter.position_offset :]
    found[POSITIONS] = np.concatenate(
        [before, np.resize(after, (longer.longest_input, len(table[0])))]
    )
    for i in range(longer.num_blocks):
        block = f"encoder/stack/layer_{i}/attention"
        for part in ("kernel", "bias"):
            local = values[f"{block}/qkv/{part}"]
            parts = np.split(local, [longer.hidden_size], axis=-1)
            for name, value in zip(("query_global", "key_value_global"), parts, strict=True):
                found[f"{block}/{name}/{part}"] = value
    if "classifier/transform/kernel" in paths:
        # BERT's classifiers read the pooler; in RoBERTa's, that layer is part of the classifier.
        for part in ("kernel", "bias"):
            pooled = found.pop(f"encoder/pooler/dense/{part}", None)
            found.setdefault(f"classifier/transform/{part}", pooled)
    return found
