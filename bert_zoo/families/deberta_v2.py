"""DeBERTa 2 and 3 (He et al. 2021, arXiv:2111.09543): buckets of distances, shared projections."""

from dataclasses import replace

from bert_zoo.families import bert, deberta
from bert_zoo.families.deberta_v2_checkpoints import CHECKPOINTS
from bert_zoo.text.format import TextFormat
from bert_zoo.text.sentencepiece_files import Scheme, read_sentencepiece
from bert_zoo.weights.formats import keras_hub
from bert_zoo.weights.formats.codec import ConfigRow
from bert_zoo.weights.table import DENSE, NORM, Row, Stored

DEFAULTS = {
    **deberta.DEFAULTS,
    "position_buckets": 256,
    "norm_positions": True,
    "shares_projections": True,
    "key_bias": True,
}
# What transformers computes with where a file says nothing.
UNSAID = {"position_buckets": -1, "norm_positions": False, "shares_projections": False}
HF_CODEC = replace(
    deberta.HF_CODEC,
    rows=[
        *deberta.HF_CODEC.rows,
        ConfigRow("position_buckets", optional=True),
        ConfigRow(
            "norm_positions", "norm_rel_ebd", {"layer_norm": True, "none": False}, optional=True
        ),
        ConfigRow("shares_projections", "share_att_key", optional=True),
        ConfigRow("conv_size", "conv_kernel_size", optional=True),
        ConfigRow("conv_activation", "conv_act", deberta.HEAD_ACTIVATIONS, optional=True),
    ],
    fixed={**deberta.HF_CODEC.fixed, "conv_groups": (1,)},
    defaults={**DEFAULTS, **UNSAID, "conv_activation": "tanh"},
)


def own_projections(config: deberta.DebertaConfig) -> bool:
    return not config.shares_projections


def has_convolution(config: deberta.DebertaConfig) -> bool:
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
            when=own_projections,
        )
        for name in ("query", "key")
    ),
    Row(CONVOLUTION, "stack/convolution", hf="encoder.conv.conv", when=has_convolution),
    Row(NORM, "stack/convolution/norm", hf="encoder.conv.LayerNorm", when=has_convolution),
)
KERAS_HUB_BLOCK = keras_hub.block_names(
    "disentangled_attention_encoder", "_self_attention_layer/_{}_dense"
)
SCHEME = Scheme(
    name="deberta_v2",
    model_file="spm.model",
    tokenizer_class="DebertaV2Tokenizer",
    last_tokens=("[MASK]",),
    special_tokens=deberta.SPECIAL_TOKENS,
)

FAMILY = replace(
    deberta.FAMILY,
    name="deberta_v2",
    defaults={"vocab_size": 128100, **DEFAULTS},
    formats={
        "hf": replace(
            deberta.FAMILY.formats["hf"],
            model_type="deberta-v2",
            codec=HF_CODEC,
            classes=bert.hf_classes("DebertaV2"),
        ),
        "keras_hub": keras_hub.KerasHub(
            class_name="DebertaV3Backbone",
            codec=keras_hub.codec(
                ConfigRow("position_buckets", "bucket_size"),
                defaults=DEFAULTS,
                config_class=deberta.DebertaConfig,
            ),
            layers={
                **keras_hub.TABLES,
                **KERAS_HUB_BLOCK,
                **keras_hub.TWO_LAYERS,
                "stack/position_embedding": "layers/relative_embedding",
                "stack/position_norm": "layers/relative_embedding/layer_norm",
            },
            classes={"DebertaV3TextClassifier": "DebertaV2ForSequenceClassification"},
            joins_heads=True,
        ),
    },
    encoder_rows=ENCODER_ROWS,
    text=TextFormat(read_sentencepiece, {"scheme": SCHEME}, deberta.LAYOUT),
    checkpoints=CHECKPOINTS,
)
