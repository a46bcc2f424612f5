"""UltraBERT (dmis-lab, 2026): Llama's layers, two of three of them with windows; 32,768 tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bert_zoo.config import ConfigError, positive, size
from bert_zoo.error_text import shown
from bert_zoo.families.bert import family as bert
from bert_zoo.families.encoder_stack import (
    KINDS,
    WINDOW_ROWS,
    WindowedConfig,
    backbone,
    optional_rows,
    summary,
    window_settings,
)
from bert_zoo.families.eurobert import CONFIG_ROWS, ENCODER_ROWS, TEXT, TOKENS, Llama
from bert_zoo.families.eurobert import DEFAULTS as EUROBERT
from bert_zoo.family import Family
from bert_zoo.fields import setting
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import KERNEL, Head, Row


@dataclass(frozen=True, kw_only=True)
class UltraBertConfig(Llama, WindowedConfig):
    first_global: ClassVar[int] = 2
    decoder_bias: ClassVar[bool] = False

    global_rope_theta: float = positive(2_560_000.0)
    # The largest distance between tokens that attend to each other in the other layers.
    sliding_window: int = size(128)
    prediction_head_size: int = size(768)  # width within the head for masked tokens
    # Pooling for heads over whole texts: the first token, or the mean.
    classifier_pooling: str = setting("cls", choices=("cls", "mean"))

    @property
    def reach(self) -> int:
        return min(self.sliding_window, self.longest_input)


DEFAULTS = EUROBERT | {"max_positions": 32768, "layer_norm_epsilon": 1e-6, "pad_id": 0}


def agree(values: dict[str, Any], name: str, found: Sequence[Any]) -> None:
    """Sets a key to what all of `found` are; ConfigError if they differ or the key says something else."""
    if any(values.setdefault(name, found[0]) != value for value in found):
        raise ConfigError(
            f"{name} would be each of {shown([values[name], *found])}, from several keys or layers of one kind; it "
            "can have one value."
        )


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a config.json to one without lists of windows and of wavelengths by layer, as in the released files."""
    values = window_settings(values)
    windows, thetas = listed(values, "attention_windows"), listed(values, "rope_theta")
    if windows:
        agree(values, "layer_types", [[i for i, window in windows if not window]])
    layers = values.get("layer_types", range(2, len(thetas), 3))
    agree(values, "sliding_window", [window for _, window in windows if window])
    agree(values, "global_rope_theta", [theta for i, theta in thetas if i in layers])
    agree(values, "local_rope_theta", [theta for i, theta in thetas if i not in layers])
    return values


def listed(values: dict[str, Any], key: str) -> list[tuple[int, Any]]:
    """The numbers of layers, and what a list has for them."""
    found, number = values.pop(key, None), values.get("num_hidden_layers")
    if found is not None and (not isinstance(found, list) or len(found) != number):
        raise ConfigError(
            f"{key} is {shown(found)}; it must list a value for each of the {shown(number)} layers."
        )
    return [*enumerate(found or ())]


def written_settings(values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `settings`, for transformers 5."""
    values = dict(values)
    thetas = {kind: values.pop(key) for kind, key in KINDS.items()}
    ropes = {k: {"rope_type": "default", "rope_theta": theta} for k, theta in thetas.items()}
    return values | {"rope_parameters": ropes}


HF_CODEC = ConfigCodec(
    rows=[
        *CONFIG_ROWS,
        *WINDOW_ROWS,
        ConfigRow("classifier_dropout", optional=True, written="head_dropout"),
        *optional_rows("sliding_window prediction_head_size"),
    ],
    defaults=DEFAULTS,
    config_class=UltraBertConfig,
    prepare=settings,
    finish=written_settings,
)


def prediction_head(config: UltraBertConfig, **options):
    """Makes the layers before the logits of masked tokens."""
    from bert_zoo.layers import FeedForward

    sizes = config.prediction_head_size, config.hidden_size
    gelu = {"activation": "gelu_tanh", "activates_output": True}
    return FeedForward(*sizes, **gelu, use_bias=False, **options)


class UltraBertFiles(HuggingFace):
    """Also files with the names of transformers' modules, which it replaces by the released ones when it saves."""

    renames = (*HuggingFace.renames, (r"^model\.", "ultrabert."), (r"^head\.decoder\.", "cls."))
    modules = ((r"^ultrabert\.", "model."), (r"^cls\.", "head.decoder."))


CLASSES = bert.hf_classes("Ultrabert", lacks="multiple_choice")
FAMILY = Family(
    name="ultrabert",
    backbone=backbone,
    defaults=DEFAULTS,
    formats={
        "hf": UltraBertFiles(
            model_type="ultrabert",
            codec=HF_CODEC,
            root="ultrabert.",
            classes=CLASSES,
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads=bert.heads_of(
        CLASSES,
        masked_lm=bert.decoding_head(
            "cls",
            Row(KERNEL, "prediction_head/intermediate", hf="head.linear1"),
            Row(KERNEL, "prediction_head/output", hf="head.linear2"),
            table=TOKENS,
            prepare=prediction_head,
        ),
        **dict.fromkeys(bert.SENTENCE_TASKS, Head((bert.CLASSIFIER,), summary=summary)),
    ),
    text=TEXT,
    checkpoints=(),
    pretraining="dynamic_masked_tokens",
    config_class=UltraBertConfig,
    settings=("classifier_pooling",),
)
