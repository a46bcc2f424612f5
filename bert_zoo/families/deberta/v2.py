"""DeBERTa 2 and 3 (He et al. 2021, arXiv:2111.09543): buckets of distances, shared projections.

Version 3 is trained with a generator, as a discriminator of replaced tokens.
"""

from dataclasses import replace
from typing import Any

from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.deberta import family as deberta
from bert_zoo.families.deberta import formats as deberta_formats
from bert_zoo.families.deberta import rows as deberta_rows
from bert_zoo.families.deberta import vocabulary as deberta_vocabulary
from bert_zoo.families.deberta.config import DebertaConfig
from bert_zoo.families.deberta.original import BPE_ENCODER
from bert_zoo.families.deberta.presets import THIRD_PRETRAINING, is_third
from bert_zoo.families.deberta.v2_checkpoints import CHECKPOINTS
from bert_zoo.families.deberta.v2_formats import (
    DEFAULTS,
    HF_CODEC,
    KERAS_HUB_BLOCK,
    JoinedHeads,
    Ported,
)
from bert_zoo.families.deberta.v2_rows import DISCRIMINATOR_ROWS, ENCODER_ROWS, GENERATOR
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.sentencepiece_files import read_sentencepiece
from bert_zoo.text.sentencepiece_model import Scheme
from bert_zoo.weights.formats import keras_hub
from bert_zoo.weights.formats.codec import ConfigRow
from bert_zoo.weights.table import Head

SCHEME = Scheme(
    name="deberta_v2",
    model_file="spm.model",
    tokenizer_class="DebertaV2Tokenizer",
    last_tokens=("[MASK]",),
    special_tokens=deberta_vocabulary.SPECIAL_TOKENS,
    begins_word=f"▁.*|{deberta_vocabulary.ALONE}",
)


def read_vocabulary(files: VocabularyFiles, options: dict[str, Any]) -> TokenizerParts:
    """Reads a SentencePiece model, or the vocabulary of a version 1 that Microsoft's program fine-tuned."""
    is_firsts = files.has(BPE_ENCODER) or files.has("vocab.json")
    if is_firsts and not files.has(SCHEME.model_file):
        firsts = {name: value for name, value in options.items() if name != "scheme"}
        return deberta.FAMILY.text.parts(files, firsts)
    return read_sentencepiece(files, options)


FAMILY = replace(
    deberta.FAMILY,
    name="deberta_v2",
    defaults={"vocab_size": 128100, **DEFAULTS},
    formats={
        "hf": Ported(
            model_type="deberta-v2",
            codec=HF_CODEC,
            root="deberta.",
            classes=bert_formats.hf_classes("DebertaV2"),
            # Differences from the generator's tables, already added to the tables in the same file.
            ignorable=(r"embeddings\.(word|position)_embeddings\._weight$",),
        ),
        "microsoft": deberta_formats.original(HF_CODEC, projections_apart=True),
        "keras_hub": JoinedHeads(
            class_name="DebertaV3Backbone",
            codec=keras_hub.codec(
                ConfigRow("position_buckets", "bucket_size"),
                defaults=DEFAULTS,
                config_class=DebertaConfig,
            ),
            layers={
                **keras_hub.TABLES,
                **KERAS_HUB_BLOCK,
                **keras_hub.TWO_LAYERS,
                "stack/position_embedding": "layers/relative_embedding",
                "stack/position_norm": "layers/relative_embedding/layer_norm",
            },
            classes={"DebertaV3TextClassifier": "DebertaV2ForSequenceClassification"},
            supports={
                "relative_attention": True,
                "position_attention": "c2p|p2c",
                "position_biased_input": False,
                "num_segments": 0,
            },
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads={**deberta_rows.HEADS, "pretraining": Head((GENERATOR, *DISCRIMINATOR_ROWS))},
    text=TextFormat(
        read_vocabulary,
        {"scheme": SCHEME},
        deberta_vocabulary.LAYOUT,
        segmented=deberta_vocabulary.SEGMENTED,
    ),
    checkpoints=CHECKPOINTS,
    objectives=("replaced_token", "masked_lm"),
    pretraining=lambda config: "replaced_masks" if is_third(config) else "windowed_ngrams",
    pretraining_preset=THIRD_PRETRAINING,
)
