"""ALBERT (Lan et al. 2019, arXiv:1909.11942): BERT with factorized embeddings and shared layers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bert_zoo.config import MOST_LAYERS, ConfigError, EncoderConfig, size
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.cards import (
    ANSWERS,
    BASE,
    CHOICES,
    LARGE,
    PRETRAINING_SIZES,
    TEXTS,
    of_config,
    of_glue,
    width,
)
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import HF, Archive, Checkpoint, Family, TextSpec, read_table, scores_of
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe
from bert_zoo.text.files import VocabularyFiles, special_tokens
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.vocabulary_files import PLAIN, Scheme, read_sentencepiece, read_wordpiece
from bert_zoo.weights.formats import TF1, HuggingFace, keras_hub, model_garden
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import DENSE, NORM, OUTPUT, Head, Row

# Task -> rows per update, learning rate, updates, warmup.
GLUE = {
    "cola": (16, 1e-5, 5336, 320),
    "mnli": (128, 3e-5, 10000, 1000),
    "mrpc": (32, 2e-5, 800, 200),
    "qnli": (32, 1e-5, 33112, 1986),
    "qqp": (128, 5e-5, 14000, 1000),
    "rte": (32, 3e-5, 800, 200),
    "sst2": (32, 1e-5, 20935, 1256),
    "stsb": (16, 2e-5, 3598, 214),
}
# The number of updates sets the length of training, so the epochs must not end it earlier.
BY_UPDATES = Recipe(epochs=1000, max_length=512)
PRESETS = (
    Preset(
        "albert/glue",
        TEXTS,
        Recipe(learning_rate=2e-5, max_length=512),
        "google-research/albert run_glue.sh, with rates from 1e-5 to 5e-5; BERT's number of epochs",
        grid={"batch_size": (16, 32, 128), "learning_rate": (1e-5, 2e-5, 3e-5, 5e-5)},
        note="Google published numbers of updates for the tasks of GLUE only; they do not apply to other data.",
    ),
    *of_glue("albert", BY_UPDATES, GLUE, "google-research/albert run_glue.sh"),
    Preset(
        "albert/squad",
        ANSWERS,
        Recipe(epochs=2, batch_size=48, max_length=384),
        "google-research/albert README.md",
    ),
    Preset(
        "albert/race",
        CHOICES,
        BY_UPDATES.replace(total_steps=12000, warmup_steps=1000, learning_rate=1e-5),
        "google-research/albert README.md, run_race.py",
        note="Version 2 diverges with dropout in the encoder, so its configuration has none.",
    ),
)

PRETRAINING = PretrainingPreset(
    rows="sentence_order",
    recipe=Recipe(
        optimizer="lamb",
        batch_size=4096,
        total_steps=125_000,
        warmup_steps=3125,
        learning_rate=0.00176,
    ),
    phases=((512, 1.0),),
    sizes=PRETRAINING_SIZES
    | {
        "nano": of_config(PRETRAINING_SIZES["nano"], embedding_size=64),
        "small": PretrainingSize(width(512, 6)),
    },
    vocabulary="sentencepiece",
    lowercase=True,
    source="Lan et al. 2019, section 4.1; google-research/albert README.md, run_pretraining.py",
)

# Cards of the released ALBERT checkpoints.
#
# The activation is that of Hugging Face's files: the exact GELU (erf) for v1, the tanh approximation for v2.
# Google trained all with the approximation; `load(name, activation="gelu_tanh")` uses it for v1 too.

GOOGLE = "https://storage.googleapis.com/albert_models/albert_"
PAPER = (
    "ALBERT: A Lite BERT for Self-supervised Learning of Language Representations, arXiv:1909.11942"
)
DROPOUT = {"hidden_dropout": 0.1, "attention_dropout": 0.1}
RELEASED_SIZES = {
    "base": BASE,
    "large": LARGE,
    "xlarge": {"hidden_size": 2048, "num_layers": 24, "num_heads": 16, "intermediate_size": 8192},
    "xxlarge": {"hidden_size": 4096, "num_layers": 12, "num_heads": 64, "intermediate_size": 16384},
}
# google-research/albert README.md.
COLUMNS = (
    "SQuAD 1.1 (dev F1/EM)",
    "SQuAD 2.0 (dev F1/EM)",
    "MNLI (dev accuracy)",
    "SST-2 (dev accuracy)",
    "RACE (test accuracy)",
)
# For where the commit comes from, see checkpoints/README.md.
ENGLISH = read_table("""
    size     tag  params       commit                                    scores
    base     v2   11_683_584   8e2f239c5f8a2c0f253781ca60135db913e5c80c  90.2/83.2 82.1/79.3 84.6 92.9 66.8
    large    v2   17_683_968   -                                         91.8/85.2
    xlarge   v2   58_724_864   -                                         92.9/86.4
    xxlarge  v2   222_595_584  -                                         94.6/89.1 89.8/86.9
    base     v1   11_683_584   -                                         89.3/82.3 80.0/77.1 81.6 90.3 64.0
    large    v1   17_683_968   -                                         90.6/83.9
    xlarge   v1   58_724_864   -                                         92.5/86.1
    xxlarge  v1   222_595_584  -                                         94.8/89.3 90.2/87.4
""")
CHINESE = read_table("""
    size     params
    base     10_547_968
    large    16_548_352
    xlarge   57_589_248
    xxlarge  221_459_968
""")


def google(name: str, size: str, archive: str, config: dict, params: int, **card) -> Checkpoint:
    """A checkpoint of google-research/albert: same licence, heads and paper for all."""
    archive_source = Archive(f"{GOOGLE}{size}_{archive}.tar.gz")
    return Checkpoint(
        name,
        RELEASED_SIZES[size] | config,
        sources=[*card.pop("hubs", []), archive_source],
        provides=frozenset({"encoder", "masked_lm", "pretraining"}),
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        **card,
    )


def english(size: str, tag: str, params: int, scores: str, commit: str = "main") -> Checkpoint:
    # v2 was trained without dropout, and so was xxlarge from the start.
    v1 = {"activation": "gelu"} | (DROPOUT if size != "xxlarge" else {})
    return google(
        f"albert_{size}",
        size,
        tag,
        v1 if tag == "v1" else {"activation": "gelu_tanh"},
        params,
        tag=tag,
        hubs=[HF(f"albert/albert-{size}-{tag}", commit)],
        scores=scores_of(COLUMNS, scores),
    )


def chinese(size: str, params: int) -> Checkpoint:
    return google(
        f"albert_{size}_chinese",
        size,
        "zh",
        {"vocab_size": 21128, "activation": "gelu_tanh"},
        params,
        text=TextSpec(lowercase=True),
        note="Uses BERT's WordPiece tokenizer, not SentencePiece.",
    )


CHECKPOINTS = [
    *(english(**row) for row in ENGLISH),
    *(chinese(**row) for row in CHINESE),
    trained_here(
        "albert_nano",
        PRETRAINING.sizes[SIZE].config,
        PAPER,
        sha256="fdeeb72b0c8c801bb8b301a60815068300a23284b19058506f4a4e47dd3049a7",
        params=615_552,
        scores={
            "held-out loss": 5.421,
            "held-out masked-token loss": 4.821,
            "held-out masked-token loss before training": 6.561,
            "held-out masked-token loss of a unigram model": 6.5,
            "held-out sentence-order loss": 0.599,
        },
    ),
]


@dataclass(frozen=True, kw_only=True)
class AlbertConfig(EncoderConfig):
    """The configuration of an ALBERT, whose layers share blocks (Lan et al. 2019, section 3.1)."""

    # Groups of blocks that layers share; 0: every layer has its own weights.
    num_hidden_groups: int = size(0, special=(0, "nothing is shared"))
    inner_group_num: int = size(1)  # blocks per group; a layer runs all blocks of its group

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.num_hidden_groups > self.num_layers:
            yield (
                f"num_hidden_groups is {self.num_hidden_groups}; there are {self.num_layers} layers "
                "to share them."
            )
        runs = self.num_layers * self.inner_group_num
        if runs > MOST_LAYERS and self.num_hidden_groups:
            yield (
                f"inner_group_num is {self.inner_group_num}, so {self.num_layers} layers run "
                f"{runs} blocks; at most {MOST_LAYERS:,} are allowed."
            )

    @property
    def num_blocks(self) -> int:
        return self.num_hidden_groups * self.inner_group_num or self.num_layers

    @property
    def blocks_of_layers(self) -> tuple[tuple[int, ...], ...]:
        # albert modeling.py, transformer_model
        if not self.num_hidden_groups:
            return super().blocks_of_layers
        groups = (i * self.num_hidden_groups // self.num_layers for i in range(self.num_layers))
        inner = self.inner_group_num
        return tuple(tuple(group * inner + j for j in range(inner)) for group in groups)


SIZES = ("embedding_size", "num_hidden_groups", "inner_group_num")
ROWS = [
    *bert.ROWS,
    *(ConfigRow(name, optional=True) for name in SIZES),
    ConfigRow(
        "classifier_dropout", "classifier_dropout_prob", optional=True, written="head_dropout"
    ),
]
# Structures that Google tried and never released.
UNRELEASED = {
    "net_structure_type": (0,),
    "gap_size": (0,),
    "num_memory_blocks": (0,),
    "down_scale_factor": (1,),
    "layers_to_keep": ([],),
}
# AlbertConfig's defaults for keys that a file lacks; the dropout rates are xxlarge's.
DEFAULTS = {
    "embedding_size": 128,
    "num_hidden_groups": 1,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "classifier_dropout": 0.1,
}
HF_CODEC = ConfigCodec(
    rows=[*ROWS, *bert.HF_ROWS],
    fixed={**bert.HF_CODEC.fixed, **UNRELEASED},
    written=bert.HF_CODEC.written,
    defaults=DEFAULTS | {"activation": "gelu_tanh"},
    config_class=AlbertConfig,
)
TF1_CODEC = ConfigCodec(
    rows=[*ROWS, ConfigRow("activation", "hidden_act", {"gelu": "gelu_tanh", "relu": "relu"})],
    fixed=UNRELEASED,
    defaults=DEFAULTS,
    config_class=AlbertConfig,
)

# Width of a released model -> its layers.
RELEASED_LAYERS = {768: 12, 1024: 24, 2048: 24, 4096: 12}


def sizes_of(shapes: Mapping[str, Any]) -> dict[str, int]:
    """Reads the sizes off the shapes of Model Garden's variables, and the number of layers off the width."""
    sizes = model_garden.sizes_of(shapes)
    width = sizes["hidden_size"]
    if width not in RELEASED_LAYERS:
        raise ConfigError(
            "The variables of an ALBERT do not show the number of layers, because layers share them, and no "
            f"released ALBERT has the width {width}. Put its albert_config.json into the directory."
        )
    return {**sizes, "num_layers": RELEASED_LAYERS[width]}


QKV = ("query", "key", "value")
# Kind, our path, names in both formats; all relative to a block.
BLOCK = (
    (
        DENSE,
        "attention/qkv",
        [f"attention.{part}" for part in QKV],
        [f"attention_1/self/{part}" for part in QKV],
    ),
    (DENSE, "attention/output", ["attention.dense"], ["attention_1/output/dense"]),
    (NORM, "attention_norm", ["attention.LayerNorm"], ["LayerNorm"]),
    (DENSE, "feed_forward/intermediate", ["ffn"], ["ffn_1/intermediate/dense"]),
    (DENSE, "feed_forward/output", ["ffn_output"], ["ffn_1/intermediate/output/dense"]),
    (NORM, "output_norm", ["full_layer_layer_norm"], ["LayerNorm_1"]),
)


def block_rows(config: AlbertConfig) -> Iterator[Row]:
    """Rows of the shared blocks. Other formats number them by group and within it."""
    for number in range(config.num_blocks):
        group, inner = divmod(number, config.inner_group_num)
        hf_block = f"encoder.albert_layer_groups.{group}.albert_layers.{inner}."
        tf1_block = f"encoder/transformer/group_{group}/inner_group_{inner}/"
        for kind, path, hf, tf1 in BLOCK:
            yield Row(
                kind,
                f"stack/layer_{number}/{path}",
                hf=tuple(hf_block + name for name in hf),
                tf1=tuple(tf1_block + name for name in tf1),
            )


ENCODER_ROWS = (
    *(row for row in bert.ENCODER_ROWS if row.ours.startswith("embeddings/")),
    bert.projection_row("encoder.embedding_hidden_mapping_in"),
    block_rows,
    Row(DENSE, "pooler/dense", hf="pooler", tf1="pooler/dense", when=lambda config: config.pooler),
)
MASKED_LM_ROWS = bert.masked_lm_rows("predictions", dense="dense", norm="LayerNorm")
MASKED_LM_COPIES = bert.masked_lm_copies("predictions")
SENTENCE_ORDER = Row(
    OUTPUT, "sentence_order/dense", hf="sop_classifier.classifier", tf1="cls/seq_relationship/"
)

SCHEME = Scheme(
    name="albert",
    model_file="spiece.model",
    tokenizer_class="AlbertTokenizer",
    special_tokens=special_tokens("<unk>", "<pad>", "[CLS]", "[SEP]", "[MASK]"),
    options=PLAIN
    | {
        "lowercase": True,
        "remove_space": True,
        "keep_accents": False,
        "special_tokens_in_text": False,
    },
    splits_number_commas=True,
    # Google's code tries to remove that space, but compares a str with bytes, which are never equal.
    split_digits_begin_words=True,
)


def read_vocabulary(files: VocabularyFiles, options: dict[str, Any]) -> TokenizerParts:
    """Reads a SentencePiece model, or BERT's vocabulary for the Chinese checkpoints."""
    if files.has("vocab.txt"):
        return read_wordpiece(files, {n: v for n, v in options.items() if n != "scheme"})
    return read_sentencepiece(files, options)


FAMILY = Family(
    name="albert",
    backbone=bert.backbone,
    defaults={"vocab_size": 30000, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="albert",
            codec=HF_CODEC,
            root="albert.",
            classes={**bert.hf_classes("Albert"), "pretraining": "AlbertForPreTraining"},
        ),
        "tf1": TF1(codec=TF1_CODEC, config_file="albert_config.json", root="bert/"),
        "keras_hub": keras_hub.KerasHub(
            class_name="AlbertBackbone",
            codec=keras_hub.codec(
                keras_hub.SEGMENTS,
                ConfigRow("embedding_size", "embedding_dim"),
                ConfigRow("num_hidden_groups", "num_groups"),
                ConfigRow("inner_group_num", "num_inner_repetitions"),
                defaults={**DEFAULTS, "activation": "gelu_tanh"},
                config_class=AlbertConfig,
            ),
            layers={
                **keras_hub.TABLES,
                **keras_hub.ENCODER,
                **keras_hub.CLASSIFIER,
                "embeddings/projection": "layers/dense",
                "pooler/dense": "layers/dense_1",
            },
            classes={"AlbertTextClassifier": "AlbertForSequenceClassification"},
        ),
        **model_garden.formats(
            {
                **model_garden.LAYERS,
                **model_garden.PROJECTION,
                **model_garden.block_names("transformer_{i}"),
                **bert.MODEL_GARDEN_HEAD,
            },
            blocks=model_garden.SHARED_BLOCKS,
            prepare=sizes_of,
            defaults={**DEFAULTS, "activation": "gelu_tanh"},
            config_class=AlbertConfig,
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads={
        "masked_lm": Head(MASKED_LM_ROWS, copies=MASKED_LM_COPIES),
        "pretraining": Head(
            (*MASKED_LM_ROWS, SENTENCE_ORDER), pooler=True, copies=MASKED_LM_COPIES
        ),
        **bert.TASK_HEADS,
    },
    text=TextFormat(read_vocabulary, {"scheme": SCHEME}),
    checkpoints=CHECKPOINTS,
    objectives=("masked_lm", "sentence_order"),
    pretraining="ngrams",
    config_class=AlbertConfig,
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
