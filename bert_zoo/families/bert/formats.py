"""How BERT's checkpoints are stored."""

from bert_zoo.families.bert.rows import SENTENCE_TASKS
from bert_zoo.json_files import JsonObject
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS

ROWS = [
    *map(ConfigRow, ("vocab_size", "hidden_size", "intermediate_size")),
    ConfigRow("num_layers", "num_hidden_layers"),
    ConfigRow("num_heads", "num_attention_heads"),
    ConfigRow("max_positions", "max_position_embeddings", optional=True),
    ConfigRow("num_segments", "type_vocab_size", optional=True),
    ConfigRow("hidden_dropout", "hidden_dropout_prob", optional=True),
    ConfigRow("attention_dropout", "attention_probs_dropout_prob", optional=True),
    ConfigRow("initializer_range", optional=True),
]
HF_ROWS = [
    ConfigRow("activation", "hidden_act", ACTIVATIONS, optional=True),
    ConfigRow("layer_norm_epsilon", "layer_norm_eps", optional=True),
    ConfigRow("tie_word_embeddings", optional=True),
    ConfigRow("pad_id", "pad_token_id", optional=True),
]
# Unused keys in configurations converted from Google's multilingual and Chinese files.
POOLER_KEYS = frozenset(
    """
    directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
    pooler_size_per_head pooler_type
    """.split()
)
# TinyBERT's settings of distillation, which no weight depends on.
TINYBERT_KEYS = frozenset("cell emb_size pre_trained structure training".split())
HF_CODEC = ConfigCodec(
    rows=[*ROWS, *HF_ROWS, ConfigRow("classifier_dropout", optional=True)],
    ignored=POOLER_KEYS | TINYBERT_KEYS,
    fixed={"position_embedding_type": ("absolute",)},
    written={"position_embedding_type": "absolute"},
)
TF1_CODEC = ConfigCodec(
    rows=[
        *ROWS,
        ConfigRow("activation", "hidden_act", {"gelu": "gelu_tanh", "relu": "relu"}, optional=True),
    ],
    ignored=POOLER_KEYS,
)


def hf_classes(prefix: str) -> dict[str, str]:
    """Hugging Face's classes of a family by task; their names begin with `prefix`."""
    return {
        "encoder": f"{prefix}Model",
        "masked_lm": f"{prefix}ForMaskedLM",
        **dict.fromkeys(SENTENCE_TASKS, f"{prefix}ForSequenceClassification"),
        "multiple_choice": f"{prefix}ForMultipleChoice",
        "token_classification": f"{prefix}ForTokenClassification",
        "question_answering": f"{prefix}ForQuestionAnswering",
    }


MODEL_GARDEN_HEAD = {
    "masked_lm/transform": "cls/predictions/transform/dense",
    "masked_lm/norm": "cls/predictions/transform/LayerNorm",
    "masked_lm": "cls/predictions/output_bias",
}


class Untyped(HuggingFace):
    """Also reads a config.json from before the key `model_type` existed."""

    def is_of_family(self, values: JsonObject) -> bool:
        if "model_type" in values or self.tokenizer_class:
            return super().is_of_family(values)
        # A configuration that names a Keras class comes from another program.
        return "class_name" not in values


HF = Untyped(
    model_type="bert",
    codec=HF_CODEC,
    root="bert.",
    classes={
        **hf_classes("Bert"),
        "pretraining": "BertForPreTraining",
        "next_sentence_prediction": "BertForNextSentencePrediction",
    },
    # Version 1 has one for all layers; version 2, on the hub, has one for each layer
    # (huawei-noah/Pretrained-Language-Model, TinyBERT/transformer/modeling.py, and its issue #124).
    unread={r"^fit_dense(s\.\d+)?\.": "head that TinyBERT was distilled with"},
)
