"""ESM-2 (Lin et al. 2022, doi:10.1101/2022.07.20.500902): a language model of proteins."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from bert_zoo.config import ConfigError, positive, size
from bert_zoo.error_text import shown
from bert_zoo.families import roberta
from bert_zoo.families.bert import family as bert
from bert_zoo.families.encoder_stack import WITHOUT, StackConfig
from bert_zoo.families.esm2.cards import CHECKPOINTS
from bert_zoo.families.esm2.files import (
    KEPT_IN,
    WithFrequencies,
    read_residues,
    written_frequencies,
)
from bert_zoo.family import Family
from bert_zoo.fields import setting
from bert_zoo.text.format import TextFormat
from bert_zoo.text.numpy_packing import Layout
from bert_zoo.weights.formats.codec import ConfigRow
from bert_zoo.weights.table import DENSE, NORM, Head, Row


@dataclass(frozen=True, kw_only=True)
class Esm2Config(StackConfig):
    """`drops_masks`: whether masks are dropped from the embeddings, and the others scaled; in evaluation, too."""

    norm_before: ClassVar[bool] = True
    embeddings_norm: ClassVar[bool] = False
    final_norm: ClassVar[bool] = True

    rope_theta: float = positive(10_000.0)
    drops_masks: bool = True
    mask_id: int | None = size(32, least=0)
    # The type of the frequencies of rotary positions in the file: trainings in half precision rounded them.
    rope_kept_in: str = setting("float32", choices=KEPT_IN)

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.drops_masks and self.mask_id is None:
            yield "mask_id is None; it must be an id, or drops_masks False."


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json that says which positions it means; raises ConfigError for other models than ESM-2."""
    positions = values.get("position_embedding_type") or "absolute"
    if values.get("is_folding_model") or positions != "rotary":
        raise ConfigError(
            f"is_folding_model is {shown(values.get('is_folding_model'))} and position_embedding_type {positions!r}: "
            "ESMFold, and ESM-1b and ESM-1v with absolute positions, are not supported, only ESM-2."
        )
    return dict(values)


# EsmConfig's; released files say what they differ in.
DEFAULTS = {"max_positions": 1026, "num_segments": 0, "drops_masks": False, "pad_id": None}
HF_CODEC = replace(
    bert.HF_CODEC,
    rows=[
        *(r for r in bert.HF_CODEC.rows if r.field not in ("num_segments", "activation")),
        ConfigRow("mask_id", "mask_token_id", optional=True),
        ConfigRow("drops_masks", "token_dropout", optional=True),
        ConfigRow("rope_theta", optional=True),
    ],
    fixed={"emb_layer_norm_before": (False, None), "hidden_act": ("gelu",)},
    ignored=frozenset("esmfold_config is_folding_model position_embedding_type vocab_list".split()),
    written={"position_embedding_type": "rotary", "emb_layer_norm_before": False},
    defaults=DEFAULTS | {"mask_id": None},
    config_class=Esm2Config,
    prepare=settings,
)

NAMES = {
    "stack/layer_{i}/attention_norm": f"{bert.LAYER}attention.LayerNorm",
    "stack/layer_{i}/output_norm": f"{bert.LAYER}LayerNorm",
}
ENCODER_ROWS = (
    *bert.renamed(
        bert.ENCODER_ROWS, "hf", NAMES, lacks="embeddings/position_embedding embeddings/norm"
    ),
    Row(NORM, "final_norm", hf="encoder.emb_layer_norm_after"),
    Row(DENSE, "contact_head", hf="contact_head.regression"),
)
MASKED_LM = bert.projecting_head(
    "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "gelu", hf="lm_head.bias"
)
SENTENCE = Head(roberta.CLASSIFIER_ROWS, output=bert.with_layer)
CLASSES = bert.hf_classes("Esm", lacks="multiple_choice question_answering")


def backbone(config: Esm2Config, dtype: Any):
    from bert_zoo.families.esm2.layers import Esm2Backbone

    return Esm2Backbone(config, dtype)


FAMILY = Family(
    name="esm2",
    backbone=backbone,
    defaults={
        **WITHOUT,
        **{"vocab_size": 33, "max_positions": 1026, "pad_id": 1, "layer_norm_epsilon": 1e-5},
    },
    formats={
        "hf": WithFrequencies(
            model_type="esm",
            codec=HF_CODEC,
            root="esm.",
            ignorable=(r"rotary_embeddings\.inv_freq$",),
            optional={r"(^|\.)contact_head\.": "head for contacts"},
            buffers=written_frequencies,
            classes=CLASSES,
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads=bert.heads_of(
        CLASSES, masked_lm=MASKED_LM, **dict.fromkeys(bert.SENTENCE_TASKS, SENTENCE)
    ),
    text=TextFormat(
        read_residues,
        layout=Layout("cls A eos", "cls A eos B eos", segments=False),
        transformers_class="EsmTokenizer",
    ),
    checkpoints=CHECKPOINTS,
    pretraining="dynamic_masked_tokens",
    config_class=Esm2Config,
    settings=("max_positions",),
)
