"""ALBERT (Lan et al. 2019, arXiv:1909.11942): BERT with factorized embeddings and shared layers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bert_zoo.config import MOST_LAYERS, ConfigError, EncoderConfig
from bert_zoo.error_text import shown
from bert_zoo.families.albert.cards import CHECKPOINTS, PRESETS, PRETRAINING
from bert_zoo.families.bert import family as bert
from bert_zoo.family import Family
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.sentencepiece_files import read_sentencepiece
from bert_zoo.text.sentencepiece_model import PLAIN, Scheme
from bert_zoo.text.vocabulary import special_tokens
from bert_zoo.text.wordpiece_files import read_wordpiece
from bert_zoo.weights.formats import TF1, HuggingFace, keras_hub, model_garden
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import DENSE, NORM, OUTPUT, Head, Row

# -------------------------------------------------------------------------------------------------
# ALBERT's configuration, and how configuration files store it.
# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AlbertConfig(EncoderConfig):
    """The configuration of an ALBERT, whose layers share blocks (Lan et al. 2019, section 3.1)."""

    # Groups of blocks that layers share; 0: every layer has its own weights.
    num_hidden_groups: int = 0
    inner_group_num: int = 1  # blocks per group; a layer runs all blocks of its group

    def __post_init__(self):
        super().__post_init__()
        problems = self.problems_with(
            positive=("inner_group_num",),
            natural={"num_hidden_groups": "nothing is shared"},
        )
        if not problems and self.num_hidden_groups > self.num_layers:
            problems.append(
                f"num_hidden_groups is {self.num_hidden_groups}; there are {self.num_layers} layers "
                "to share them."
            )
        runs = self.num_layers * self.inner_group_num if not problems else 0
        if runs > MOST_LAYERS and self.num_hidden_groups:
            problems.append(
                f"inner_group_num is {shown(self.inner_group_num)}, so {self.num_layers} layers run "
                f"{shown(runs)} blocks; at most {MOST_LAYERS:,} are allowed."
            )
        if problems:
            raise ConfigError("This encoder cannot be built: " + " ".join(problems))

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


# -------------------------------------------------------------------------------------------------
# ALBERT's weight rows and heads.
# -------------------------------------------------------------------------------------------------

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
        for kind, ours, hf, tf1 in BLOCK:
            yield Row(
                kind,
                f"stack/layer_{number}/{ours}",
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
