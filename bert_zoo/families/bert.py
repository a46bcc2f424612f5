"""BERT (Devlin et al. 2018, arXiv:1810.04805)."""

from collections.abc import Callable

from bert_zoo.config import ConfigCodec, ConfigRow, EncoderConfig
from bert_zoo.families.bert_checkpoints import CHECKPOINTS
from bert_zoo.registry import Family
from bert_zoo.weights.formats import HF_BOOKKEEPING, HF_GENERATION, TF1_TRAINING_STATE
from bert_zoo.weights.table import BIAS, DENSE, EMBED, NORM, OUTPUT, Copy, Format, Head, Row


def parts(config: EncoderConfig, dtype) -> dict:
    """The encoder's layers: embeddings, a stack of post-norm blocks, a pooler."""
    from bert_zoo.layers import Embeddings, FeedForward, Pooler, PostNormBlock, SelfAttention, Stack

    fresh = {"initializer_range": config.initializer_range, "dtype": dtype}

    def block(i: int) -> PostNormBlock:
        return PostNormBlock(
            SelfAttention(
                config.num_heads,
                config.hidden_size,
                dropout=config.attention_dropout,
                name="attention",
                **fresh,
            ),
            FeedForward(
                config.intermediate_size,
                config.hidden_size,
                activation=config.activation,
                name="feed_forward",
                **fresh,
            ),
            epsilon=config.layer_norm_epsilon,
            dropout=config.hidden_dropout,
            dtype=dtype,
            name=f"layer_{i}",
        )

    return {
        "embeddings": Embeddings(
            config.vocab_size,
            config.hidden_size,
            embedding_size=config.table_width,
            max_positions=config.max_positions,
            num_segments=config.num_segments,
            position_offset=config.position_offset,
            pad_id=config.pad_id,
            epsilon=config.layer_norm_epsilon,
            dropout=config.hidden_dropout,
            name="embeddings",
            **fresh,
        ),
        "stack": Stack(
            [block(i) for i in range(config.num_blocks)],
            config.hidden_size,
            blocks_of_layers=config.blocks_of_layers,
            dtype=dtype,
            name="stack",
        ),
        "pooler": Pooler(config.hidden_size, name="pooler", **fresh) if config.pooler else None,
    }


ROWS = [
    ConfigRow("vocab_size", "vocab_size"),
    ConfigRow("hidden_size", "hidden_size"),
    ConfigRow("num_layers", "num_hidden_layers"),
    ConfigRow("num_heads", "num_attention_heads"),
    ConfigRow("intermediate_size", "intermediate_size"),
    ConfigRow("max_positions", "max_position_embeddings", optional=True),
    ConfigRow("num_segments", "type_vocab_size", optional=True),
    ConfigRow("hidden_dropout", "hidden_dropout_prob", optional=True),
    ConfigRow("attention_dropout", "attention_probs_dropout_prob", optional=True),
    ConfigRow("initializer_range", "initializer_range", optional=True),
]
# Keys of configurations converted from Google's multilingual and Chinese files, never read.
POOLER_KEYS = frozenset(
    {
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    }
)
HF_CODEC = ConfigCodec(
    rows=[
        *ROWS,
        # "gelu" means erf here and tanh in Google's files: the same word, other numbers.
        ConfigRow(
            "activation",
            "hidden_act",
            {
                "gelu": "gelu",
                "gelu_new": "gelu_tanh",
                "gelu_pytorch_tanh": "gelu_tanh",
                "relu": "relu",
                "silu": "silu",
                "swish": "silu",
            },
            optional=True,
        ),
        ConfigRow("layer_norm_epsilon", "layer_norm_eps", optional=True),
        ConfigRow("classifier_dropout", "classifier_dropout", optional=True),
        ConfigRow("tie_word_embeddings", "tie_word_embeddings", optional=True),
        ConfigRow("pad_id", "pad_token_id", optional=True),
    ],
    fixed={
        "model_type": ("bert",),
        "position_embedding_type": ("absolute",),
        "is_decoder": (False,),
        "is_encoder_decoder": (False,),
        "add_cross_attention": (False,),
        "pruned_heads": ({},),
    },
    ignored=HF_BOOKKEEPING | HF_GENERATION | POOLER_KEYS,
    written={"model_type": "bert", "position_embedding_type": "absolute"},
)
TF1_CODEC = ConfigCodec(
    rows=[
        *ROWS,
        ConfigRow("activation", "hidden_act", {"gelu": "gelu_tanh", "relu": "relu"}, optional=True),
    ],
    ignored=POOLER_KEYS,
)

LAYER = "encoder.layer.{i}."
ENCODER_ROWS = (
    Row(EMBED, "embeddings/token_embedding", "embeddings.word_embeddings"),
    Row(EMBED, "embeddings/position_embedding", "embeddings.position_embeddings"),
    Row(EMBED, "embeddings/segment_embedding", "embeddings.token_type_embeddings"),
    Row(NORM, "embeddings/norm", "embeddings.LayerNorm"),
    Row(
        DENSE,
        "stack/layer_{i}/attention/qkv",
        tuple(f"{LAYER}attention.self.{part}" for part in ("query", "key", "value")),
    ),
    Row(DENSE, "stack/layer_{i}/attention/output", LAYER + "attention.output.dense"),
    Row(NORM, "stack/layer_{i}/attention_norm", LAYER + "attention.output.LayerNorm"),
    Row(DENSE, "stack/layer_{i}/feed_forward/intermediate", LAYER + "intermediate.dense"),
    Row(DENSE, "stack/layer_{i}/feed_forward/output", LAYER + "output.dense"),
    Row(NORM, "stack/layer_{i}/output_norm", LAYER + "output.LayerNorm"),
    Row(DENSE, "pooler/dense", "pooler.dense", when=lambda config: config.pooler),
)


def untied(config: EncoderConfig) -> bool:
    return not config.tie_word_embeddings


def masked_lm_rows(scope: str, *, dense: str, norm: str) -> tuple[Row, ...]:
    """The rows of a masked-language-model head.

    Args:
        scope: what Hugging Face's names of the head begin with.
        dense, norm: how the names of its transform go on.
    """
    tf1 = "cls/predictions/"
    return (
        Row(DENSE, "masked_lm/transform", f"{scope}.{dense}", tf1=f"{tf1}transform/dense"),
        Row(NORM, "masked_lm/norm", f"{scope}.{norm}", tf1=f"{tf1}transform/LayerNorm"),
        Row(
            BIAS,
            "masked_lm",
            f"{scope}.bias",
            tf1=f"{tf1}output_bias",
            when=lambda config: config.tie_word_embeddings,
        ),
        Row(EMBED, "masked_lm/decoder", f"{scope}.decoder", tf1=f"{tf1}decoder", when=untied),
        Row(BIAS, "masked_lm", f"{scope}.decoder.bias", tf1=f"{tf1}decoder/bias", when=untied),
    )


def masked_lm_copies(scope: str) -> dict[Format, Callable[[EncoderConfig], tuple[Copy, ...]]]:
    """transformers ties both the table and the bias, or neither: untied, it reads the decoder's."""
    bias, decoder = f"{scope}.bias", f"{scope}.decoder"

    def copies(config: EncoderConfig) -> tuple[Copy, ...]:
        if untied(config):
            return (Copy(bias, of=f"{decoder}.bias", equal=False),)
        return (
            Copy(f"{decoder}.weight", of="{root}embeddings.word_embeddings.weight"),
            Copy(f"{decoder}.bias", of=bias),
        )

    return {"hf": copies}


CLASSIFIER = Row(OUTPUT, "classifier/dense", "classifier", tf1="")


# Tasks whose heads differ in what their logits mean alone.
SENTENCE_TASKS = ("classification", "multi_label_classification", "regression")


def task_heads(prefix: str) -> dict[str, Head]:
    """The heads of fine-tuning, whose names are the same in most families.

    Args:
        prefix: what the names of the family's Hugging Face classes begin with.
    """
    sentence = Head((CLASSIFIER,), f"{prefix}ForSequenceClassification", pooler=True)
    span = Row(OUTPUT, "span/dense", "qa_outputs", tf1="cls/squad/")
    return {
        **dict.fromkeys(SENTENCE_TASKS, sentence),
        "multiple_choice": Head((CLASSIFIER,), f"{prefix}ForMultipleChoice", pooler=True),
        "token_classification": Head((CLASSIFIER,), f"{prefix}ForTokenClassification"),
        "question_answering": Head((span,), f"{prefix}ForQuestionAnswering"),
    }


MASKED_LM_ROWS = masked_lm_rows(
    "cls.predictions", dense="transform.dense", norm="transform.LayerNorm"
)
MASKED_LM_COPIES = masked_lm_copies("cls.predictions")
HEADS = {
    "masked_lm": Head(MASKED_LM_ROWS, "BertForMaskedLM", copies=MASKED_LM_COPIES),
    "pretraining": Head(
        (
            *MASKED_LM_ROWS,
            Row(OUTPUT, "next_sentence/dense", "cls.seq_relationship", tf1="cls/seq_relationship/"),
        ),
        "BertForPreTraining",
        pooler=True,
        copies=MASKED_LM_COPIES,
    ),
    **task_heads("Bert"),
}

FAMILY = Family(
    name="bert",
    parts=parts,
    defaults={"vocab_size": 30522},
    codecs={"hf": HF_CODEC, "tf1": TF1_CODEC},
    encoder_rows=ENCODER_ROWS,
    heads=HEADS,
    hf_encoder_class="BertModel",
    roots={"hf": "bert.", "tf1": "bert/", "bert_zoo": "encoder/"},
    ignorable={
        "hf": (r"(^|\.)embeddings\.(position_ids|token_type_ids)$",),
        "tf1": TF1_TRAINING_STATE,
        "bert_zoo": (),
    },
    tokenizer="bert",
    checkpoints=CHECKPOINTS,
    objectives=("next_sentence",),
    config_files={"bert_config.json": "tf1"},
)
