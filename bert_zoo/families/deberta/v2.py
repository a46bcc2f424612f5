"""DeBERTa 2 and 3 (He et al. 2021, arXiv:2111.09543): buckets of distances, shared projections.

Version 3 is trained with a generator, as a discriminator of replaced tokens.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bert_zoo.families.bert import family as bert
from bert_zoo.families.deberta import family as deberta
from bert_zoo.families.deberta.cards import THIRD_PRETRAINING, V2_CHECKPOINTS, is_third
from bert_zoo.families.deberta.family import BPE_ENCODER, DebertaConfig
from bert_zoo.families.deberta.family import DEFAULTS as FIRST_DEFAULTS
from bert_zoo.families.deberta.family import HF_CODEC as FIRST_CODEC
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.vocabulary_files import Scheme, read_sentencepiece
from bert_zoo.weights.formats import keras_hub
from bert_zoo.weights.formats.codec import ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import DENSE, NORM, Head, Row, SecondEncoder, Stored

DEFAULTS = {
    **FIRST_DEFAULTS,
    "position_buckets": 256,
    "norm_positions": True,
    "shares_projections": True,
    "key_bias": True,
}
# transformers' defaults for keys that a file lacks.
UNSAID = {"position_buckets": -1, "norm_positions": False, "shares_projections": False}
HF_CODEC = replace(
    FIRST_CODEC,
    rows=[
        *FIRST_CODEC.rows,
        ConfigRow("position_buckets", optional=True),
        ConfigRow(
            "norm_positions", "norm_rel_ebd", {"layer_norm": True, "none": False}, optional=True
        ),
        ConfigRow("shares_projections", "share_att_key", optional=True),
        ConfigRow("conv_size", "conv_kernel_size", optional=True),
        ConfigRow("conv_activation", "conv_act", ACTIVATIONS, optional=True),
    ],
    fixed={**FIRST_CODEC.fixed, "conv_groups": (1,)},
    defaults={**DEFAULTS, **UNSAID, "conv_activation": "tanh"},
)
KERAS_HUB_BLOCK = keras_hub.block_names(
    "disentangled_attention_encoder", "_self_attention_layer/_{}_dense"
)


class PortedDebertaV3(deberta.PortedDeberta):
    """Version 3 has a discriminator and, in a second file, the generator."""

    def differences(self, config, unsaid, longest):
        furthest = config.longest_distance
        if config.position_attention and config.position_buckets > 0 and longest > furthest:
            yield (
                f"In rows of more than {furthest} tokens, distances of {furthest} and more are read as {furthest - 1}, "
                "as in Microsoft's program. transformers reads another row of the table for some of them: pass "
                f"max_length={furthest} for its outputs."
            )


class JoinedHeads(keras_hub.KerasHub):
    """The kernel after attention has no axis for heads."""

    def shape(self, row: Row, variable: str) -> Callable[[Any], tuple[int, ...]] | None:
        is_output = row.ours.endswith("attention/output")
        return None if is_output else super().shape(row, variable)


def has_convolution(config: DebertaConfig) -> bool:
    return bool(config.conv_size)


# PyTorch's convolutions keep [out, in, size]; ours are [size, in, out].
CONVOLUTION = {
    "kernel": {"pytorch": Stored(".weight", transposed=True)},
    "bias": {"pytorch": Stored(".bias")},
}
ENCODER_ROWS = (
    *deberta.SHARED_ROWS,
    Row(
        NORM,
        "stack/position_norm",
        hf="encoder.LayerNorm",
        when=lambda config: config.norm_positions,
    ),
    *(
        Row(DENSE, f"stack/layer_{{i}}/attention/{name}", hf=f"{deberta.SELF}{name}_proj")
        for name in ("query", "key", "value")
    ),
    *(
        Row(
            DENSE,
            f"stack/layer_{{i}}/attention/position_{name}",
            hf=f"{deberta.SELF}pos_{name}_proj",
            when=deberta.reads(term, own=True),
        )
        for name, term in (("query", "p2c"), ("key", "c2p"))
    ),
    Row(CONVOLUTION, "stack/convolution", hf="encoder.conv.conv", when=has_convolution),
    Row(NORM, "stack/convolution/norm", hf="encoder.conv.LayerNorm", when=has_convolution),
)
GENERATOR = SecondEncoder(
    ENCODER_ROWS,
    "generator/",
    "generator",
    lambda config: config.generator,
    head=deberta.MASKED_LM,
)
DISCRIMINATOR_ROWS = (
    Row(NORM, "replaced_token/norm", hf="mask_predictions.LayerNorm"),
    Row(DENSE, "replaced_token/transform", hf="mask_predictions.dense"),
    Row(DENSE, "replaced_token/dense", hf="mask_predictions.classifier"),
)

SCHEME = Scheme(
    name="deberta_v2",
    model_file="spm.model",
    tokenizer_class="DebertaV2Tokenizer",
    last_tokens=("[MASK]",),
    special_tokens=deberta.SPECIAL_TOKENS,
    begins_word=f"▁.*|{deberta.ALONE}",
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
        "hf": PortedDebertaV3(
            supports_in_head=deberta.SUPPORTS_IN_HEAD,
            files_beside={"generator": "pytorch_model.generator.bin"},
            # Discriminators hold the tensors of a head that their training does not use.
            untrained={"masked_lm": r"^mask_predictions\."},
            model_type="deberta-v2",
            codec=HF_CODEC,
            root="deberta.",
            classes=bert.hf_classes("DebertaV2"),
            # Differences from the generator's tables, already added to the tables in the same file.
            ignorable=(r"embeddings\.(word|position)_embeddings\._weight$",),
        ),
        "microsoft": deberta.original(HF_CODEC, projections_apart=True),
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
    heads={**deberta.HEADS, "pretraining": Head((GENERATOR, *DISCRIMINATOR_ROWS))},
    text=TextFormat(
        read_vocabulary,
        {"scheme": SCHEME},
        deberta.LAYOUT,
        segmented=deberta.SEGMENTED,
    ),
    checkpoints=V2_CHECKPOINTS,
    objectives=("replaced_token", "masked_lm"),
    pretraining=lambda config: "replaced_masks" if is_third(config) else "windowed_ngrams",
    pretraining_preset=THIRD_PRETRAINING,
)
