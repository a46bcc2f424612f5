"""BigBird (Zaheer et al. 2020, arXiv:2007.14062): BERT with block-sparse attention for 4,096 tokens."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bert_zoo.config import EncoderConfig, size
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.family import SENTENCE_TASKS
from bert_zoo.families.bigbird.cards import CHECKPOINTS, PRESETS, PRETRAINING
from bert_zoo.families.bigbird.random_blocks import fewest_blocks
from bert_zoo.family import Family
from bert_zoo.fields import setting
from bert_zoo.text.files import special_tokens
from bert_zoo.text.format import TextFormat
from bert_zoo.text.vocabulary_files import NEWLINE, PLAIN, Scheme, read_sentencepiece
from bert_zoo.weights.formats import TF1, HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.format import sizes_in
from bert_zoo.weights.table import BIAS, DENSE, KERNEL, NORM, Head, Row

SPARSE = "block_sparse"
ATTENTION_TYPES = (SPARSE, "original_full")
# The random blocks of the released models, or block 0 in place of each, as in transformers' evaluation mode.
DRAWN, BLOCK_0 = "original", "hf_evaluation"
RANDOM_BLOCKS = (DRAWN, BLOCK_0)


@dataclass(frozen=True, kw_only=True)
class BigBirdConfig(EncoderConfig):
    """`hidden_dropout` acts before the embeddings' norm, `attention_dropout` only in rows with full attention."""

    attention_type: str = setting(SPARSE, choices=ATTENTION_TYPES)
    block_size: int = size(64)  # tokens per block
    num_random_blocks: int = size(3, least=0)  # random blocks that each block attends to
    random_blocks: str = setting(DRAWN, choices=RANDOM_BLOCKS)
    use_bias: bool = True  # whether queries, keys and values have biases
    rescale_embeddings: bool = (
        False  # whether tokens' vectors are multiplied by the root of their width
    )
    # Of the layer before a classifier's logits; None: the same as `activation`. With "tanh", the layer is the pooler.
    classifier_activation: str | None = setting(None, choices=("tanh",))
    sep_id: int = size(66, least=0)  # id of the separator, which ends a question

    @property
    def most_seen_by_all(self) -> int:
        """The largest number of tokens in a row with full attention."""
        is_sparse = self.attention_type == SPARSE
        fewest = fewest_blocks(self.num_random_blocks)
        return (fewest - 1) * self.block_size if is_sparse else self.longest_input

    @property
    def has_random_blocks(self) -> bool:
        return self.random_blocks == DRAWN


DEFAULTS = {"vocab_size": 50358, "max_positions": 4096, "activation": "gelu_tanh"}
HF_CODEC = replace(
    bert.HF_CODEC,
    rows=[
        *bert.HF_CODEC.rows,
        *(
            ConfigRow(name, optional=True)
            for name in ("attention_type", "block_size", "num_random_blocks", "random_blocks")
        ),
        *(ConfigRow(name, optional=True) for name in ("use_bias", "rescale_embeddings")),
        ConfigRow("classifier_activation", optional=True),
        ConfigRow("sep_id", "sep_token_id", optional=True),
    ],
    defaults=DEFAULTS,
    config_class=BigBirdConfig,
)

# Google's classifier reads the pooler (see `rows.py`).
TF1_HEAD = {"classifier_activation": "tanh"}
TF1_DEFAULTS = DEFAULTS | TF1_HEAD
TABLES, FIRST_LAYER = "bert/embeddings/", "bert/encoder/layer_0/"
TF1_SIZES = {
    "vocab_size": (f"{TABLES}word_embeddings", 0),
    "hidden_size": (f"{TABLES}word_embeddings", 1),
    "max_positions": (f"{TABLES}position_embeddings", 0),
    "num_segments": (f"{TABLES}token_type_embeddings", 0),
    "intermediate_size": (f"{FIRST_LAYER}intermediate/dense/kernel", 1),
}
# A tensor that only Google's BigBird checkpoints have.
TF1_SIGN = "bert/encoder/LayerNorm/gamma"


def sizes_of(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Reads the sizes off the shapes of Google's tensors; returns {} for another program's."""
    if TF1_SIGN not in shapes:
        return {}
    sizes = sizes_in(shapes, TF1_SIZES, layer="bert/encoder/layer_([^/]*)")
    query = f"{FIRST_LAYER}attention/self/query/"
    kernel = shapes.get(f"{query}kernel", ())
    heads = {"num_heads": kernel[1]} if len(kernel) == 3 else {}
    return {**sizes, **heads, "use_bias": f"{query}bias" in shapes}


TF1_CODEC = ConfigCodec(
    rows=[ConfigRow(name) for name in (*TF1_SIZES, "num_layers", "num_heads", "use_bias")],
    defaults=TF1_DEFAULTS,
    config_class=BigBirdConfig,
    prepare=sizes_of,
)
# The settings of a run, which Google's programs save with its checkpoints.
FLAGS_CODEC = ConfigCodec(
    rows=[
        *bert.TF1_CODEC.rows,
        *map(ConfigRow, ("attention_type", "block_size")),
        ConfigRow("num_random_blocks", "num_rand_blocks"),
        ConfigRow("use_bias"),
        ConfigRow("rescale_embeddings", "rescale_embedding"),
    ],
    fixed={"norm_type": ("postnorm",), "scope": ("bert",)},
    ignored=None,
    defaults=TF1_DEFAULTS,
    config_class=BigBirdConfig,
)


# -------------------------------------------------------------------------------------------------
# How BigBird's checkpoints are stored.
# -------------------------------------------------------------------------------------------------

HF_CLASSES = {**bert.hf_classes("BigBird"), "pretraining": "BigBirdForPreTraining"}
# Tensors that the first checkpoints store with an axis for heads, after or before the hidden axis.
HEADS_LAST, HEADS_FIRST = (
    r"/self/(query|key|value)/(kernel|bias)$",
    r"/attention/output/dense/kernel$",
)


@dataclass(frozen=True, kw_only=True)
class OriginalBigBird(TF1):
    """Checkpoints of google-research/bigbird."""

    def read_shape(self, key, stored):
        if re.search(HEADS_FIRST, key) and len(stored) == 3:
            return (math.prod(stored[:2]), stored[2])
        if re.search(HEADS_LAST, key) and len(stored) == (3 if key.endswith("kernel") else 2):
            return (*stored[:-2], math.prod(stored[-2:]))
        return stored

    def inferred_fields(self, source, config, unsaid):
        return {**super().inferred_fields(source, config, unsaid), **TF1_HEAD}


def evaluated_with(config: BigBirdConfig) -> str:
    """The random blocks that transformers uses in evaluation mode, if the model has any."""
    has_any = config.attention_type == SPARSE and config.num_random_blocks
    return BLOCK_0 if has_any else config.random_blocks


@dataclass(frozen=True, kw_only=True)
class BigBirdHuggingFace(HuggingFace):
    """Directories of transformers."""

    def differences(self, config, unsaid, longest):
        has_others = evaluated_with(config) != config.random_blocks
        if has_others and "random_blocks" in unsaid and longest > config.most_seen_by_all:
            yield (
                f"Rows of more than {config.most_seen_by_all} tokens read the random blocks of the original program. "
                f"transformers reads them only in training, and block 0 otherwise: pass random_blocks={BLOCK_0!r} for "
                f"its outputs, or random_blocks={DRAWN!r} to silence this."
            )


FORMATS = {
    "hf": BigBirdHuggingFace(
        model_type="big_bird",
        codec=HF_CODEC,
        root="bert.",
        classes=HF_CLASSES,
        supports={"random_blocks": evaluated_with},
        # Classifiers always have the encoder's activation.
        supports_in_head={task: {"classifier_activation": None} for task in SENTENCE_TASKS},
        sizes={"num_segments": r"embeddings\.token_type_embeddings\.weight$"},
    ),
    # Configured by the saved settings of a run if there are any, else by the shapes.
    "tf1_run": OriginalBigBird(codec=FLAGS_CODEC, config_file="*.config", root=None),
    "tf1": OriginalBigBird(codec=TF1_CODEC, config_file="*.index", root="bert/"),
}

LAYER = "encoder.layer.{i}.attention."
QKV = tuple(f"{LAYER}self.{part}" for part in ("query", "key", "value"))
OUTPUT, TF1_OUTPUT = f"{LAYER}output.dense", "encoder/layer_{i}/attention/output/dense"


def has_biases(config: BigBirdConfig) -> bool:
    return config.use_bias


def lacks_biases(config: BigBirdConfig) -> bool:
    return not config.use_bias


ENCODER_ROWS = (
    *bert.renamed(
        bert.ENCODER_ROWS,
        "tf1",
        {"embeddings/norm": "encoder/LayerNorm"},
        lacks="stack/layer_{i}/attention/qkv stack/layer_{i}/attention/output pooler/dense",
    ),
    Row(DENSE, "stack/layer_{i}/attention/qkv", hf=QKV, when=has_biases),
    Row(KERNEL, "stack/layer_{i}/attention/qkv", hf=QKV, when=lacks_biases),
    Row(DENSE, "stack/layer_{i}/attention/output", hf=OUTPUT, when=has_biases),
    Row(KERNEL, "stack/layer_{i}/attention/output", hf=OUTPUT, when=lacks_biases),
    # Google's models without query biases have no bias here either.
    Row(BIAS, "stack/layer_{i}/attention/output", hf=f"{OUTPUT}.bias", tf1=(), when=lacks_biases),
    Row(DENSE, "pooler/dense", hf="pooler", tf1="pooler/dense", when=lambda config: config.pooler),
)

# Google's program stores the transform of the masked-token head at the root.
MASKED_LM_ROWS = bert.renamed(
    bert.MASKED_LM_ROWS,
    "tf1",
    {"masked_lm/transform": "transform", "masked_lm/norm": "transform"},
)


def dense_layer(config: BigBirdConfig, **options):
    """The dense layer before a classifier's logits; in Google's models it is the pooler."""
    from bert_zoo.families.bigbird.layers import DenseLayer

    is_pooler = config.classifier_activation is not None
    return DenseLayer(
        config.hidden_size,
        activation=config.classifier_activation or config.activation,
        dropout=0.0 if is_pooler else config.head_dropout,
        **options,
    )


def answer_block(config: BigBirdConfig, **options):
    """The block before the logits of answers."""
    from bert_zoo.families.bigbird.layers import FeedForwardBlock

    return FeedForwardBlock(
        config.intermediate_size,
        config.hidden_size,
        activation=config.activation,
        epsilon=config.layer_norm_epsilon,
        dropout=config.hidden_dropout,
        **options,
    )


def in_question(config: BigBirdConfig, inputs: Mapping[str, Any]):
    """Marks the tokens up to the first separator, except the row's first token: bool [batch, length]."""
    from keras import ops

    is_separator = ops.cast(ops.equal(inputs["token_ids"], config.sep_id), "int32")
    so_far = ops.cumsum(is_separator, axis=1)
    is_text = ops.arange(ops.shape(so_far)[1]) > 0
    has_question = ops.logical_and(so_far[:, -1:] > 0, ops.equal(so_far, is_separator))
    return ops.logical_and(has_question, is_text)


# Hugging Face's head has its own layer over the first token. Google's head reads the pooler, the same layer with
# another activation, so fine-tuning Google's files starts from the pooler's weights.
CLASSIFICATION = Head(
    (
        Row(DENSE, "prediction_head/dense", hf="classifier.dense", tf1="bert/pooler/dense"),
        Row(DENSE, "classifier/dense", hf="classifier.out_proj", tf1="bert/classifier"),
    ),
    prepare=dense_layer,
)
CLASSIFIER = bert.CLASSIFIER.named(tf1=())
QA = "qa_classifier."
HEADS = {
    "masked_lm": Head(MASKED_LM_ROWS, copies=bert.MASKED_LM_COPIES),
    "pretraining": Head(
        (*MASKED_LM_ROWS, bert.NEXT_SENTENCE), pooler=True, copies=bert.MASKED_LM_COPIES
    ),
    **dict.fromkeys(bert.SENTENCE_TASKS, CLASSIFICATION),
    "multiple_choice": Head((CLASSIFIER,), pooler=True, output=bert.hidden_dropout),
    "token_classification": Head((CLASSIFIER,)),
    "question_answering": Head(
        (
            Row(DENSE, "prediction_head/intermediate", hf=f"{QA}intermediate.dense", tf1=()),
            Row(DENSE, "prediction_head/output", hf=f"{QA}output.dense", tf1=()),
            Row(NORM, "prediction_head/norm", hf=f"{QA}output.LayerNorm", tf1=()),
            Row(DENSE, "span/dense", hf=f"{QA}qa_outputs", tf1=()),
        ),
        output=bert.span_dropout,
        prepare=answer_block,
        no_answer=in_question,
    ),
}


def backbone(config: BigBirdConfig, dtype):
    """BERT's layers with sparse attention, and dropout before the norm of the embeddings."""
    from bert_zoo.families.bigbird.layers import SparseAttention, SparseBackbone, SparseEmbeddings
    from bert_zoo.layers import Pooler, Stack

    hidden_size = config.hidden_size
    options = {"initializer_range": config.initializer_range, "dtype": dtype}

    def attention(i: int, **options) -> SparseAttention:
        return SparseAttention(i, config, **options)

    blocks = bert.blocks(config, dtype, attention=attention)
    return SparseBackbone(
        config,
        embeddings=SparseEmbeddings(
            rescales_tokens=config.rescale_embeddings,
            **bert.embedding_options(config, dtype),
        ),
        stack=Stack(blocks, hidden_size, dtype=dtype, name="stack"),
        pooler=Pooler(hidden_size, name="pooler", **options) if config.pooler else None,
        dtype=dtype,
    )


SCHEME = Scheme(
    name="bigbird",
    model_file="spiece.model",
    tokenizer_class="BigBirdTokenizer",
    special_tokens=special_tokens("<unk>", "<pad>", "[CLS]", "[SEP]", "[MASK]"),
    options=PLAIN | {"special_tokens_in_text": False},
    begins_word="▁.*",
    original_spaces=NEWLINE,  # run_pretraining.py, --substitute_newline
)

FAMILY = Family(
    name="bigbird",
    backbone=backbone,
    defaults=DEFAULTS,
    formats=FORMATS,
    encoder_rows=ENCODER_ROWS,
    heads=HEADS,
    text=TextFormat(read_sentencepiece, {"scheme": SCHEME}),
    checkpoints=CHECKPOINTS,
    objectives=("masked_lm", "next_sentence"),
    pretraining="whole_words",
    config_class=BigBirdConfig,
    settings=("attention_type", "block_size", "num_random_blocks", "random_blocks"),
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
