"""ALBERT (Lan et al. 2019, arXiv:1909.11942): BERT with factorized embeddings and shared layers."""

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
from bert_zoo.families.albert.rows import (
    ENCODER_ROWS,
    MASKED_LM_COPIES,
    MASKED_LM_ROWS,
    SENTENCE_ORDER,
)
from bert_zoo.families.bert import backbone as bert_backbone
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.family import Family
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.sentencepiece_files import read_sentencepiece
from bert_zoo.text.sentencepiece_model import PLAIN, Scheme
from bert_zoo.text.vocabulary import special_tokens
from bert_zoo.text.wordpiece_files import read_wordpiece
from bert_zoo.weights.formats import TF1, HuggingFace, keras_hub, model_garden
from bert_zoo.weights.formats.codec import ConfigRow
from bert_zoo.weights.table import Head

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
