"""SpanBERT (Joshi et al. 2020, arXiv:1907.10529): a cased BERT trained on spans, without pooler."""

from dataclasses import dataclass, replace

from bert_zoo.config import ConfigError, EncoderConfig
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.bert.checkpoints import BASE, LARGE
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.families.spanbert.presets import PRESETS, PRETRAINING
from bert_zoo.family import HF, Archive, Checkpoint, TextSpec
from bert_zoo.weights.formats import Fairseq
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import BIAS, DENSE, EMBED, NORM, Copy, Head, Row
from bert_zoo.weights.tensor_source import TensorSource

PAPER = "SpanBERT: Improving Pre-training by Representing and Predicting Spans, arXiv:1907.10529"
FAIRSEQ = "https://dl.fbaipublicfiles.com/fairseq/models/spanbert_"
SIZES = {"base": BASE, "large": LARGE}
PARAMS = {"base": 107_719_680, "large": 332_529_664}
# facebookresearch/SpanBERT README.md: the base models on development, the large on test sets.
SCORES = {
    "base": {
        "SQuAD 1.1 (dev F1)": 92.4,
        "SQuAD 2.0 (dev F1)": 83.6,
        "OntoNotes coreference (average F1)": 77.4,
        "TACRED (F1)": 68.2,
    },
    "large": {
        "SQuAD 1.1 (test F1)": 94.6,
        "SQuAD 2.0 (test F1)": 88.7,
        "OntoNotes coreference (average F1)": 79.6,
        "TACRED (F1)": 70.8,
    },
}


@dataclass(frozen=True, kw_only=True)
class SpanBertConfig(EncoderConfig):
    """What fixes a SpanBERT."""

    # Tokens of a span that its boundaries predict (`--max-pair-targets` of the original trainer, whose
    # default the paper's models have).
    span_targets: int = 15

    def __post_init__(self):
        super().__post_init__()
        if problems := self.problems_with(positive=("span_targets",), natural={}, rates=()):
            raise ConfigError(" ".join(problems))


# The original kept the names of pytorch_pretrained_bert, below fairseq's `decoder.`.
SPANS = "cls.pair_target_predictions"
SPAN_BOUNDARY_ROWS = (
    Row(EMBED, "span_boundary/target_position", hf=f"{SPANS}.position_embeddings"),
    Row(DENSE, "span_boundary/first", hf=f"{SPANS}.mlp_layer_norm.linear1"),
    Row(NORM, "span_boundary/first_norm", hf=f"{SPANS}.mlp_layer_norm.layer_norm1"),
    Row(DENSE, "span_boundary/second", hf=f"{SPANS}.mlp_layer_norm.linear2"),
    Row(NORM, "span_boundary/second_norm", hf=f"{SPANS}.mlp_layer_norm.layer_norm2"),
    Row(BIAS, "span_boundary", hf=f"{SPANS}.bias"),
)


def copies(config) -> tuple[Copy, ...]:
    table = Copy(f"{SPANS}.decoder.weight", of="{root}embeddings.word_embeddings.weight")
    return (*bert_rows.MASKED_LM_COPIES["hf"](config), table)


def released(size: str, archive: str, *hubs: HF, **card) -> Checkpoint:
    """A checkpoint of facebookresearch/SpanBERT: same licence and vocabulary for all."""
    return Checkpoint(
        f"spanbert_{size}",
        SIZES[size],
        sources=[*hubs, Archive(f"{FAIRSEQ}{archive}.tar.gz")],
        params=PARAMS[size],
        licence="CC-BY-NC-4.0 (not for commercial use)",
        paper=PAPER,
        text=TextSpec(lowercase=False),
        **{"provides": frozenset({"encoder"}), **card},
    )


def on_squad(size: str, version: str, archive: str) -> Checkpoint:
    return released(
        size,
        archive,
        tag=f"squad{version}",
        provides=frozenset({"encoder", "question_answering"}),
        note=f"Fine-tuned on SQuAD {version}.",
    )


class SpanBertFiles(bert_formats.Untyped):
    """Directories with BERT's config.json, told from BERT's by the head of span boundaries."""

    def claims(self, source: TensorSource) -> bool:
        return any(f"{SPANS}." in key for key in source)


# The arguments of its pretraining program, which wrote the tensors under names of the hf format.
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
            # Only trainings without --no-nsp, which the paper does without, have it.
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
    checkpoints=[
        released("base", "hf_base", HF("SpanBERT/spanbert-base-cased"), scores=SCORES["base"]),
        released("large", "hf", HF("SpanBERT/spanbert-large-cased"), scores=SCORES["large"]),
        released(
            "large",
            "large_with_head",
            tag="with_head",
            provides=frozenset({"encoder", "masked_lm", "pretraining"}),
            note="With the heads for masked tokens and span boundaries.",
        ),
        on_squad("base", "1.1", "squad1_base"),
        on_squad("base", "2.0", "squad2_base"),
        on_squad("large", "1.1", "squad1"),
        on_squad("large", "2.0", "squad2"),
        trained_here(
            "spanbert_nano",
            PRETRAINING.sizes[SIZE].config,
            PAPER,
            sha256="c0607301807b0d887fb88214e0a297905353916b87ab80e9f55fde2f4984b10a",
            params=1_181_440,
            text=TextSpec(lowercase=False, max_length=128),
            scores={
                "held out loss": 12.061,
                "held out mlm_logits_loss": 5.88,
                "held out mlm_logits_loss, unigram model": 7.058,
                "held out mlm_logits_loss, untrained": 7.189,
                "held out sbo_logits_loss": 6.181,
            },
        ),
    ],
    # Its files do not say that the vocabulary is BERT's cased one.
    text=replace(bert.FAMILY.text, options={"lowercase": False}),
    objectives=("masked_lm", "span_boundary"),
    pretraining="spans",
    config_class=SpanBertConfig,
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
