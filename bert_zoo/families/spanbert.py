"""SpanBERT (Joshi et al. 2020, arXiv:1907.10529): a cased BERT without pooler, trained on spans."""

import re
from dataclasses import dataclass, replace

from bert_zoo.config import EncoderConfig, size
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.cards import ANSWERS, BASE, CHOICES, LARGE, PRETRAINING_SIZES, TEXTS
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import HF, Archive, Checkpoint, TextSpec, read_table, scores_of
from bert_zoo.presets import Preset, PretrainingPreset, Recipe
from bert_zoo.weights.formats import Fairseq
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import BIAS, DENSE, EMBED, NORM, Copy, Head, Row

# BertAdam clips each gradient separately, and its rate falls from the end of warmup.
RECIPE = Recipe(learning_rate=2e-5, schedule="linear_after_warmup", clip_each=True)
PRESETS = (
    Preset(
        "spanbert/rte",
        TEXTS,
        RECIPE.replace(epochs=10),
        "facebookresearch/SpanBERT README.md, code/pytorch_pretrained_bert/optimization.py",
        note="The authors published it for RTE and TACRED, and none for other tasks of GLUE. They clip the gradients "
        "of query, key and value separately; here they are one.",
    ),
    Preset(
        "spanbert/squad",
        ANSWERS,
        RECIPE.replace(epochs=4, max_length=512),
        "facebookresearch/SpanBERT README.md, code/pytorch_pretrained_bert/optimization.py",
        note="The authors clip the gradients of query, key and value separately; here they are one.",
    ),
    Preset(
        "spanbert/swag",
        CHOICES,
        RECIPE.replace(batch_size=16),
        "Devlin et al. 2018, section 4.4, with SpanBERT's optimizer",
    ),
)

# The rate, batch size and updates of base are from the authors' answer in issue 6 of their repository.
PRETRAINING = PretrainingPreset(
    rows="doc_sentences",
    recipe=Recipe(
        batch_size=2048,
        total_steps=300_000,
        warmup_steps=10_000,
        learning_rate=5e-4,
        schedule="linear_after_warmup",
        epsilon=1e-8,
        bias_correction=True,
        decay_all=True,
    ),
    phases=((512, 1.0),),
    sizes=PRETRAINING_SIZES
    | {
        "large": replace(
            PRETRAINING_SIZES["large"],
            changes={"batch_size": 256, "total_steps": 2_400_000, "learning_rate": 1e-4},
        ),
    },
    vocabulary="wordpiece",
    lowercase=False,
    source="facebookresearch/SpanBERT pretraining/README.md; Joshi et al. 2020, section 4.2",
)

PAPER = "SpanBERT: Improving Pre-training by Representing and Predicting Spans, arXiv:1907.10529"
FAIRSEQ = "https://dl.fbaipublicfiles.com/fairseq/models/spanbert_"
# facebookresearch/SpanBERT README.md.
COLUMNS = (
    "SQuAD 1.1 (dev F1)",
    "SQuAD 2.0 (dev F1)",
    "SQuAD 1.1 (test F1)",
    "SQuAD 2.0 (test F1)",
    "OntoNotes coreference (average F1)",
    "TACRED (F1)",
)
RELEASED = read_table("""
    size   tag        params       repo                           archive          heads                  scores
    base   -          107_719_680  SpanBERT/spanbert-base-cased   hf_base          -                      92.4 83.6 - - 77.4 68.2
    large  -          332_529_664  SpanBERT/spanbert-large-cased  hf               -                      - - 94.6 88.7 79.6 70.8
    large  with_head  332_529_664  -                              large_with_head  masked_lm,pretraining  -
    base   squad1.1   107_719_680  -                              squad1_base      question_answering     -
    base   squad2.0   107_719_680  -                              squad2_base      question_answering     -
    large  squad1.1   332_529_664  -                              squad1           question_answering     -
    large  squad2.0   332_529_664  -                              squad2           question_answering     -
""")
NOTES = {
    "with_head": "Includes the heads for masked tokens and span boundaries.",
    "squad1.1": "Fine-tuned on SQuAD 1.1.",
    "squad2.0": "Fine-tuned on SQuAD 2.0.",
}


def released(
    size: str,
    params: int,
    archive: str,
    repo: str = "",
    tag: str = "",
    heads: str = "",
    scores: str = "",
) -> Checkpoint:
    """A checkpoint of facebookresearch/SpanBERT. All have the same licence and vocabulary."""
    return Checkpoint(
        f"spanbert_{size}",
        {"base": BASE, "large": LARGE}[size],
        sources=[*([HF(repo)] if repo else []), Archive(f"{FAIRSEQ}{archive}.tar.gz")],
        provides=frozenset({"encoder", *(heads.split(",") if heads else [])}),
        params=params,
        licence="CC-BY-NC-4.0 (not for commercial use)",
        paper=PAPER,
        tag=tag,
        text=TextSpec(lowercase=False),
        scores=scores_of(COLUMNS, scores),
        note=NOTES.get(tag, ""),
    )


CHECKPOINTS = [
    *(released(**row) for row in RELEASED),
    trained_here(
        "spanbert_nano",
        PRETRAINING.sizes[SIZE].config,
        PAPER,
        sha256="c0607301807b0d887fb88214e0a297905353916b87ab80e9f55fde2f4984b10a",
        params=1_181_440,
        text=TextSpec(lowercase=False, max_length=128),
        scores={
            "held-out loss": 12.061,
            "held-out masked-token loss": 5.88,
            "held-out masked-token loss before training": 7.189,
            "held-out masked-token loss of a unigram model": 7.058,
            "held-out span-boundary loss": 6.181,
        },
    ),
]

# The original has the names of pytorch_pretrained_bert under fairseq's prefix `decoder.`.
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
    return (*bert.MASKED_LM_COPIES["hf"](config), table)


@dataclass(frozen=True, kw_only=True)
class SpanBertConfig(EncoderConfig):
    # Largest number of a span's tokens predicted from its boundaries: `--max-pair-targets` of the original trainer,
    # with its default, which the paper's models use.
    span_targets: int = size(15)


# Arguments of the pretraining program, which wrote tensors with the names of the hf format.
ARGUMENTS_CODEC = ConfigCodec(
    rows=[*bert.ROWS, ConfigRow("activation", "hidden_act", {"gelu": "gelu"})],
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
        "hf": bert.Untyped(
            # Directories have BERT's config.json; the span-boundary head distinguishes them.
            distinctive_key=re.escape(f"{SPANS}."),
            model_type=bert.HF.model_type,
            root=bert.HF.root,
            codec=replace(bert.HF_CODEC, config_class=SpanBertConfig),
            classes={
                **bert.HF.classes,
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
        **bert.TASK_HEADS,
        "masked_lm": bert.HEADS["masked_lm"],
        "next_sentence_prediction": bert.HEADS["next_sentence_prediction"],
        "pretraining": Head((*bert.MASKED_LM_ROWS, *SPAN_BOUNDARY_ROWS), copies={"hf": copies}),
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
