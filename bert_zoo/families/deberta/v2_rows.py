"""Weight rows of DeBERTa 2 and 3."""

from bert_zoo.families.deberta import rows as deberta_rows
from bert_zoo.families.deberta.config import DebertaConfig
from bert_zoo.weights.table import DENSE, NORM, Row, SecondEncoder, Stored


def has_convolution(config: DebertaConfig) -> bool:
    return bool(config.conv_size)


# PyTorch's convolutions keep [out, in, size]; ours are [size, in, out].
CONVOLUTION = {
    "kernel": {"pytorch": Stored(".weight", transposed=True)},
    "bias": {"pytorch": Stored(".bias")},
}
ENCODER_ROWS = (
    *deberta_rows.SHARED_ROWS,
    Row(
        NORM,
        "stack/position_norm",
        hf="encoder.LayerNorm",
        when=lambda config: config.norm_positions,
    ),
    *(
        Row(DENSE, f"stack/layer_{{i}}/attention/{name}", hf=f"{deberta_rows.SELF}{name}_proj")
        for name in ("query", "key", "value")
    ),
    *(
        Row(
            DENSE,
            f"stack/layer_{{i}}/attention/position_{name}",
            hf=f"{deberta_rows.SELF}pos_{name}_proj",
            when=deberta_rows.reads(term, own=True),
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
    head=deberta_rows.MASKED_LM,
)
DISCRIMINATOR_ROWS = (
    Row(NORM, "replaced_token/norm", hf="mask_predictions.LayerNorm"),
    Row(DENSE, "replaced_token/transform", hf="mask_predictions.dense"),
    Row(DENSE, "replaced_token/dense", hf="mask_predictions.classifier"),
)
