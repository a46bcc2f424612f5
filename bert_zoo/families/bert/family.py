"""BERT (Devlin et al. 2018, arXiv:1810.04805)."""

from bert_zoo.families.bert.backbone import backbone
from bert_zoo.families.bert.checkpoints import CHECKPOINTS
from bert_zoo.families.bert.formats import HF, MODEL_GARDEN_HEAD, TF1_CODEC
from bert_zoo.families.bert.presets import PRESETS, PRETRAINING
from bert_zoo.families.bert.rows import ENCODER_ROWS, HEADS
from bert_zoo.family import Family
from bert_zoo.text.format import TextFormat
from bert_zoo.text.wordpiece_files import read_wordpiece
from bert_zoo.weights.formats import (
    TF1,
    keras_hub,
    model_garden,
)

FAMILY = Family(
    name="bert",
    backbone=backbone,
    defaults={"vocab_size": 30522},
    formats={
        "hf": HF,
        "tf1": TF1(codec=TF1_CODEC, config_file="bert_config.json", root="bert/"),
        "keras_hub": keras_hub.KerasHub(
            class_name="BertBackbone",
            codec=keras_hub.codec(keras_hub.SEGMENTS, defaults={"activation": "gelu_tanh"}),
            layers={
                **keras_hub.TABLES,
                **keras_hub.ENCODER,
                **keras_hub.CLASSIFIER,
                "pooler/dense": "layers/dense",
            },
            classes={"BertTextClassifier": "BertForSequenceClassification"},
        ),
        **model_garden.formats(
            {**model_garden.LAYERS, **model_garden.BLOCKS, **MODEL_GARDEN_HEAD},
            defaults={"activation": "gelu_tanh"},
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads=HEADS,
    text=TextFormat(read_wordpiece, transformers_class="BertTokenizer"),
    checkpoints=CHECKPOINTS,
    objectives=("masked_lm", "next_sentence"),
    pretraining="masked_tokens",
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
