"""XLM's configuration, and how configuration files store it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bert_zoo.config import UNLIMITED, ConfigError, EncoderConfig, is_integer
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow


@dataclass(frozen=True, kw_only=True)
class XlmConfig(EncoderConfig):
    """The configuration of an XLM."""

    intermediate_size: int = 0  # width of the feed-forward layer; 0: four times `hidden_size`
    num_languages: int = 1  # languages that `language_ids` may name
    language_embeddings: bool = True  # whether `language_ids` are read, if there are several
    # Standard deviation of randomly initialised tables; 0: 1 / sqrt(width).
    embedding_initializer_range: float = 0.0

    def __post_init__(self):
        has_width = is_integer(self.hidden_size) and self.hidden_size > 0
        if self.intermediate_size == 0 and has_width:
            width = min(4 * self.hidden_size, UNLIMITED)
            object.__setattr__(self, "intermediate_size", width)
        if self.embedding_initializer_range == 0 and has_width:
            object.__setattr__(self, "embedding_initializer_range", self.hidden_size**-0.5)
        super().__post_init__()
        if problems := self.problems_with(
            positive=("num_languages",),
            deviations=("embedding_initializer_range",),
        ):
            raise ConfigError(" ".join(problems))

    @property
    def reads_languages(self) -> bool:
        return self.language_embeddings and self.num_languages > 1


FORMER_KEYS = {"n_words": "vocab_size", "pad_index": "pad_token_id"}


def with_keys_of_today(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a configuration file's content from the keys of transformers 2 and 3."""
    former = {new: values[old] for old, new in FORMER_KEYS.items() if old in values}
    return {**former, **{key: value for key, value in values.items() if key not in FORMER_KEYS}}


DEFAULTS = {"num_segments": 0, "pooler": False, "pad_id": 2}
HF_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size"),
        ConfigRow("hidden_size", "emb_dim"),
        ConfigRow("num_layers", "n_layers"),
        ConfigRow("num_heads", "n_heads"),
        ConfigRow("max_positions", "max_position_embeddings", optional=True),
        ConfigRow("num_languages", "n_langs", optional=True),
        ConfigRow("language_embeddings", "use_lang_emb", optional=True),
        ConfigRow("hidden_dropout", "dropout", optional=True),
        ConfigRow("attention_dropout", optional=True),
        ConfigRow(
            "classifier_dropout", "summary_first_dropout", optional=True, written="head_dropout"
        ),
        ConfigRow("activation", "gelu_activation", {True: "gelu", False: "relu"}, optional=True),
        ConfigRow("layer_norm_epsilon", "layer_norm_eps", optional=True),
        ConfigRow("initializer_range", "init_std", optional=True),
        ConfigRow("embedding_initializer_range", "embed_init_std", optional=True),
        ConfigRow("tie_word_embeddings", optional=True),
        ConfigRow("pad_id", "pad_token_id", optional=True),
    ],
    fixed={
        "asm": (False,),
        "causal": (False,),
        "is_encoder": (True,),
        "share_inout_emb": (True,),
        "summary_type": ("first",),
        "summary_use_proj": (True,),
        "summary_proj_to_labels": (True,),
        "summary_activation": (None,),
    },
    # Ids and names of languages, which the tokenizer's files have, missing heads, and the original program's
    # vocabulary. Sinusoids were only a table's initial values; the table is read from the file.
    ignored=frozenset(
        """
        bos_index end_n_top eos_index id2lang lang2id lang_id mask_index mask_token_id max_vocab
        min_count same_enc_dec sinusoidal_embeddings start_n_top unk_index
        """.split()
    ),
    # XLMConfig's defaults.
    defaults={**DEFAULTS, "classifier_dropout": 0.1, "embedding_initializer_range": 2048**-0.5},
    config_class=XlmConfig,
    prepare=with_keys_of_today,
)

# The program's `params` have the keys of early transformers, and those of the training.
PROGRAM_CODEC = replace(
    HF_CODEC,
    fixed={**HF_CODEC.fixed, "use_memory": (False,)},
    ignored=None,
    defaults=DEFAULTS,
)
