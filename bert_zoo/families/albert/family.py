"""ALBERT (Lan et al. 2019, arXiv:1909.11942): factorized embeddings, layers that share weights."""

from collections.abc import Iterator
from typing import Any

from bert_zoo.families.albert.checkpoints import CHECKPOINTS
from bert_zoo.families.albert.config import (
    DEFAULTS,
    HF_CODEC,
    TF1_CODEC,
    AlbertConfig,
    sizes_of,
)
from bert_zoo.families.albert.presets import PRESETS, PRETRAINING
from bert_zoo.families.bert import backbone as bert_backbone
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.family import Family
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.sentencepiece_files import read_sentencepiece
from bert_zoo.text.sentencepiece_model import Scheme
from bert_zoo.text.vocabulary import special_tokens
from bert_zoo.text.wordpiece_files import read_wordpiece
from bert_zoo.weights.formats import TF1, HuggingFace, keras_hub, model_garden
from bert_zoo.weights.formats.codec import ConfigRow
from bert_zoo.weights.table import DENSE, NORM, OUTPUT, Head, Row

QKV = ("query", "key", "value")
# Kind, our path, and the names in both formats, all below a block.
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
    """Rows of the blocks that layers share, which other formats number by group and in it."""
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
    *(row for row in bert_rows.ENCODER_ROWS if row.ours.startswith("embeddings/")),
    bert_rows.projection_row("encoder.embedding_hidden_mapping_in"),
    block_rows,
    Row(DENSE, "pooler/dense", hf="pooler", tf1="pooler/dense", when=lambda config: config.pooler),
)
MASKED_LM_ROWS = bert_rows.masked_lm_rows("predictions", dense="dense", norm="LayerNorm")
MASKED_LM_COPIES = bert_rows.masked_lm_copies("predictions")
SENTENCE_ORDER = Row(
    OUTPUT, "sentence_order/dense", hf="sop_classifier.classifier", tf1="cls/seq_relationship/"
)

SCHEME = Scheme(
    name="albert",
    model_file="spiece.model",
    tokenizer_class="AlbertTokenizer",
    special_tokens=special_tokens("<unk>", "<pad>", "[CLS]", "[SEP]", "[MASK]"),
    options={
        "lowercase": True,
        "remove_space": True,
        "keep_accents": False,
        "rewrite_quotes": False,
        "special_tokens_in_text": False,
        "hugging_face_rules": False,
        "compose": False,
    },
    splits_number_commas=True,
    # Google's code means to take that space away, but compares a str with bytes, which never are equal.
    split_digits_begin_words=True,
)


def read_vocabulary(files: VocabularyFiles, options: dict[str, Any]) -> TokenizerParts:
    """A SentencePiece model, or BERT's vocabulary, which the Chinese checkpoints have."""
    if files.has("vocab.txt"):
        return read_wordpiece(files, {n: v for n, v in options.items() if n != "scheme"})
    return read_sentencepiece(files, options)


FAMILY = Family(
    name="albert",
    backbone=bert_backbone.backbone,
    defaults={"vocab_size": 30000, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="albert",
            codec=HF_CODEC,
            root="albert.",
            classes={**bert_formats.hf_classes("Albert"), "pretraining": "AlbertForPreTraining"},
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
                **bert_formats.MODEL_GARDEN_HEAD,
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
        **bert_rows.TASK_HEADS,
    },
    text=TextFormat(read_vocabulary, {"scheme": SCHEME}),
    checkpoints=CHECKPOINTS,
    objectives=("masked_lm", "sentence_order"),
    pretraining="ngrams",
    config_class=AlbertConfig,
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
