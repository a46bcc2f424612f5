"""SpanBERT (Joshi et al. 2020, arXiv:1907.10529): a cased BERT without pooler, trained on spans."""

from dataclasses import dataclass, replace

from bert_zoo.config import ConfigError, EncoderConfig
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.spanbert.checkpoints import CHECKPOINTS
from bert_zoo.families.spanbert.presets import PRESETS, PRETRAINING
from bert_zoo.families.spanbert.rows import SPAN_BOUNDARY_ROWS, SPANS, copies
from bert_zoo.weights.formats import Fairseq
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import Head
from bert_zoo.weights.tensor_source import TensorSource


@dataclass(frozen=True, kw_only=True)
class SpanBertConfig(EncoderConfig):
    """The configuration of a SpanBERT."""

    # Largest number of a span's tokens predicted from its boundaries: `--max-pair-targets` of the original trainer,
    # with its default, which the paper's models use.
    span_targets: int = 15

    def __post_init__(self):
        super().__post_init__()
        if problems := self.problems_with(positive=("span_targets",)):
            raise ConfigError(" ".join(problems))


class SpanBertFiles(bert_formats.Untyped):
    """Directories with BERT's config.json; the span-boundary head distinguishes them from BERT's."""

    def claims(self, source: TensorSource) -> bool:
        return any(f"{SPANS}." in key for key in source)


# Arguments of the pretraining program, which wrote tensors with the names of the hf format.
ARGUMENTS_CODEC = ConfigCodec(
    rows=[*bert_formats.ROWS, ConfigRow("activation", "hidden_act", {"gelu": "gelu"})],
    fixed={"task": ("span_bert",)},
    ignored=None,
    defaults={"pooler": False},
    config_class=SpanBertConfig,
)

FAMILY = replace(
    bert.FAMILY,
    name="spanbert",
    defaults={"vocab_size": 28996, "pooler": False},
    formats={
        "hf": SpanBertFiles(
            model_type=bert_formats.HF.model_type,
            root=bert_formats.HF.root,
            codec=replace(bert_formats.HF_CODEC, config_class=SpanBertConfig),
            classes={
                **bert_formats.HF.classes,
                "pretraining": "BertForMaskedLM",
            },
            sizes={
                "span_targets": r"(^|\.)cls\.pair_target_predictions\.position_embeddings\.weight$"
            },
            # Only trainings without --no-nsp have it; the paper's models used --no-nsp.
            unread={r"(^|\.)cls\.seq_relationship\.(weight|bias)$": "next-sentence head"},
        ),
        "fairseq": Fairseq(codec=ARGUMENTS_CODEC, root=None),
    },
    heads={
        **bert_rows.TASK_HEADS,
        "masked_lm": bert_rows.HEADS["masked_lm"],
        "next_sentence_prediction": bert_rows.HEADS["next_sentence_prediction"],
        "pretraining": Head(
            (*bert_rows.MASKED_LM_ROWS, *SPAN_BOUNDARY_ROWS), copies={"hf": copies}
        ),
    },
    checkpoints=CHECKPOINTS,
    # The files do not say that the vocabulary is BERT's cased one.
    text=replace(bert.FAMILY.text, options={"lowercase": False}),
    objectives=("masked_lm", "span_boundary"),
    pretraining="spans",
    config_class=SpanBertConfig,
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
