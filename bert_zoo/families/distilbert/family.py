"""DistilBERT (Sanh et al. 2019, arXiv:1910.01108): BERT with half the layers, without segments or pooler."""

from functools import partial

from bert_zoo.families.bert import backbone as bert_backbone
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.distilbert.checkpoints import CHECKPOINTS
from bert_zoo.families.distilbert.presets import PRESETS
from bert_zoo.family import Family
from bert_zoo.text.format import TextFormat
from bert_zoo.text.layout import Layout
from bert_zoo.text.wordpiece_files import read_wordpiece
from bert_zoo.weights.formats import HuggingFace, keras_hub
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import DENSE, Head, Row

DEFAULTS = {"num_segments": 0, "pooler": False, "classifier_dropout": 0.2, "span_dropout": 0.1}
HF_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size"),
        ConfigRow("hidden_size", "dim"),
        ConfigRow("num_layers", "n_layers"),
        ConfigRow("num_heads", "n_heads"),
        ConfigRow("intermediate_size", "hidden_dim"),
        ConfigRow("max_positions", "max_position_embeddings", optional=True),
        ConfigRow("hidden_dropout", "dropout", optional=True),
        ConfigRow("attention_dropout", optional=True),
        ConfigRow(
            "classifier_dropout", "seq_classif_dropout", optional=True, written="head_dropout"
        ),
        ConfigRow("span_dropout", "qa_dropout", optional=True),
        ConfigRow("activation", "activation", ACTIVATIONS, optional=True),
        ConfigRow("initializer_range", optional=True),
        ConfigRow("tie_word_embeddings", optional=True),
        ConfigRow("pad_id", "pad_token_id", optional=True),
    ],
    # Sinusoids were only the initial values; the table is read from the file.
    ignored=frozenset({"sinusoidal_pos_embds", "tie_weights_"}),
    defaults=DEFAULTS,
)

LAYER = "transformer.layer.{i}."
HF_NAMES = {
    "stack/layer_{i}/attention/qkv": tuple(f"{LAYER}attention.{p}_lin" for p in "qkv"),
    "stack/layer_{i}/attention/output": f"{LAYER}attention.out_lin",
    "stack/layer_{i}/attention_norm": f"{LAYER}sa_layer_norm",
    "stack/layer_{i}/feed_forward/intermediate": f"{LAYER}ffn.lin1",
    "stack/layer_{i}/feed_forward/output": f"{LAYER}ffn.lin2",
    "stack/layer_{i}/output_norm": f"{LAYER}output_layer_norm",
}
ENCODER_ROWS = bert_rows.renamed(
    bert_rows.ENCODER_ROWS, "hf", HF_NAMES, lacks="embeddings/segment_embedding pooler/dense"
)
MASKED_LM = bert_rows.projecting_head("vocab_transform", "vocab_layer_norm", "vocab_projector")
# A layer with ReLU in place of the pooler, without dropout before it.
SENTENCE = Head(
    (Row(DENSE, "classifier/transform", hf="pre_classifier"), bert_rows.CLASSIFIER),
    output=partial(bert_rows.with_layer, activation="relu", dropout_first=0.0),
)

FAMILY = Family(
    name="distilbert",
    backbone=bert_backbone.backbone,
    defaults={"vocab_size": 30522, "num_layers": 6, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="distilbert",
            codec=HF_CODEC,
            root="distilbert.",
            classes=bert_formats.hf_classes("DistilBert"),
        ),
        "keras_hub": keras_hub.KerasHub(
            class_name="DistilBertBackbone",
            codec=keras_hub.codec(defaults=DEFAULTS),
            layers={**keras_hub.JOINT_TABLES, **keras_hub.ENCODER, **keras_hub.TWO_LAYERS},
            classes={"DistilBertTextClassifier": "DistilBertForSequenceClassification"},
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads={
        **bert_rows.TASK_HEADS,
        "masked_lm": MASKED_LM,
        "token_classification": Head((bert_rows.CLASSIFIER,), output=bert_rows.hidden_dropout),
        **dict.fromkeys((*bert_rows.SENTENCE_TASKS, "multiple_choice"), SENTENCE),
    },
    text=TextFormat(
        read_wordpiece,
        layout=Layout(segments=False),
        transformers_class="DistilBertTokenizer",
    ),
    checkpoints=CHECKPOINTS,
    pretraining="masked_tokens",
    presets=PRESETS,
)
