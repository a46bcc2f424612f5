"""ERNIE 2.0 and 3.0 (Sun et al. 2019, arXiv:1907.12412): BERT with a table of task types."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bert_zoo.config import EncoderConfig, size
from bert_zoo.families.bert import family as bert
from bert_zoo.families.ernie.cards import CHECKPOINTS
from bert_zoo.json_files import JsonObject
from bert_zoo.weights.formats import Description, HuggingFace
from bert_zoo.weights.formats.codec import ConfigRow
from bert_zoo.weights.table import EMBED, Row

MODEL_TYPE = "ernie"
# Keys that no BERT has. With them, config.json is ERNIE's, even if it says that it is BERT's.
USES_TASKS, TASKS = "use_task_id", "task_type_vocab_size"


@dataclass(frozen=True, kw_only=True)
class ErnieConfig(EncoderConfig):
    num_task_types: int = size(3)  # task types that `task_type_ids` may name
    task_type_embeddings: bool = False  # whether there are vectors for them


def with_its_type(values: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json with ERNIE's model type instead of BERT's, which the first ones had."""
    return {**values, "model_type": MODEL_TYPE}


HF_CODEC = replace(
    bert.HF_CODEC,
    rows=[
        *bert.HF_CODEC.rows,
        ConfigRow("num_task_types", TASKS, optional=True),
        ConfigRow("task_type_embeddings", USES_TASKS, optional=True),
    ],
    # Of PaddlePaddle: its class, another name of type_vocab_size, and how it trains.
    ignored=frozenset(
        "enable_recompute fuse init_class paddlenlp_version sent_type_vocab_size".split()
    ),
    fixed={**bert.HF_CODEC.fixed, "pool_act": ("tanh",), "task_id": (0,)},
    config_class=ErnieConfig,
    prepare=with_its_type,
)


class ErnieHuggingFace(HuggingFace):
    """Directories of transformers, and older ones whose configuration calls the model a BERT."""

    takes_precedence = True

    def is_of_family(self, values: JsonObject) -> bool:
        is_older = values.get("model_type") == "bert" and (USES_TASKS in values or TASKS in values)
        return is_older or super().is_of_family(values)

    def description(self, values: JsonObject, directory: Path) -> Description:
        found = super().description(values, directory)
        classes = (name.replace("Bert", "Ernie") for name in found.classes)
        return replace(found, classes=tuple(classes))


def backbone(config: ErnieConfig, dtype):
    """BERT's backbone; if the configuration has them, with vectors for tokens' tasks, those of task 0 where no input names
    one (Sun et al. 2019, ERNIE 2.0, section 3.2).
    """
    from bert_zoo.families.ernie.layers import TaskTypeBackbone
    from bert_zoo.layers.embeddings import TypedEmbeddings

    if not config.task_type_embeddings:
        return bert.backbone(config, dtype)
    embeddings = TypedEmbeddings(
        num_types=config.num_task_types,
        type_table="task_type_embedding",
        adds_first=True,
        **bert.embedding_options(config, dtype),
    )
    return bert.backbone(config, dtype, embeddings=embeddings, backbone_class=TaskTypeBackbone)


TASK_TABLE = Row(
    EMBED,
    "embeddings/task_type_embedding",
    hf="embeddings.task_type_embeddings",
    when=lambda config: config.task_type_embeddings,
)

FAMILY = replace(
    bert.FAMILY,
    name="ernie",
    backbone=backbone,
    # Of every released file.
    defaults={"num_segments": 4, "layer_norm_epsilon": 1e-5},
    formats={
        "hf": ErnieHuggingFace(
            model_type=MODEL_TYPE,
            codec=HF_CODEC,
            root="ernie.",
            classes={task: name.replace("Bert", "Ernie") for task, name in bert.HF.classes.items()},
            unread={r"\btask_type_embeddings\.": f"table of task types without {USES_TASKS}"},
        )
    },
    encoder_rows=(*bert.ENCODER_ROWS, TASK_TABLE),
    checkpoints=CHECKPOINTS,
    config_class=ErnieConfig,
    pretraining_preset=None,
)
