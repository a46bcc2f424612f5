"""ELECTRA's configuration, and how Hugging Face's config.json stores it."""

from dataclasses import dataclass, replace
from functools import partial

from bert_zoo.config import ConfigError, EncoderConfig
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.tf1 import HEAD_SIZE, sizes_in


@dataclass(frozen=True, kw_only=True)
class ElectraConfig(EncoderConfig):
    """The configuration of an ELECTRA."""

    # Width of the generator in `pretraining`; 0: a quarter of the discriminator's.
    generator_hidden_size: int = 0
    summary_dropout: float = 0.1  # rate after multiple choice's layer in place of the pooler

    def __post_init__(self):
        super().__post_init__()
        natural = {"generator_hidden_size": "a quarter of hidden_size"}
        if problems := self.problems_with(natural=natural):
            raise ConfigError(" ".join(problems))

    @property
    def generator(self) -> "ElectraConfig":
        """The generator's configuration (the original's run_pretraining.py, get_generator_config)."""
        hidden_size = self.generator_hidden_size or round(self.hidden_size / 4)
        return self.replace(
            hidden_size=hidden_size,
            intermediate_size=4 * hidden_size,
            num_heads=max(1, hidden_size // HEAD_SIZE),
            embedding_size=self.table_width,
        )


DEFAULTS = {"pooler": False}
HF_CODEC = replace(
    bert_formats.HF_CODEC,
    rows=[
        *bert_formats.HF_CODEC.rows,
        ConfigRow("embedding_size", optional=True, written="table_width"),
        ConfigRow("summary_dropout", "summary_last_dropout", optional=True),
    ],
    fixed={
        **bert_formats.HF_CODEC.fixed,
        "summary_type": ("first",),
        "summary_use_proj": (True,),
        "summary_activation": ("gelu",),
    },
    defaults={**DEFAULTS, "embedding_size": 128},  # ElectraConfig's
    config_class=ElectraConfig,
)
TF1_SIZES = {
    "vocab_size": ("electra/embeddings/word_embeddings", 0),
    "embedding_size": ("electra/embeddings/word_embeddings", 1),
    "max_positions": ("electra/embeddings/position_embeddings", 0),
    "num_segments": ("electra/embeddings/token_type_embeddings", 0),
    "hidden_size": ("electra/encoder/layer_0/intermediate/dense/kernel", 0),
    "intermediate_size": ("electra/encoder/layer_0/intermediate/dense/kernel", 1),
}
TF1_CODEC = ConfigCodec(
    rows=[ConfigRow(name) for name in (*TF1_SIZES, "num_layers", "num_heads")],
    defaults=DEFAULTS,
    config_class=ElectraConfig,
    prepare=partial(sizes_in, places=TF1_SIZES, layer="electra/encoder/layer_([^/]*)"),
)
