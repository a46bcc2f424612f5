"""How T5's checkpoints are stored."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

from bert_zoo.config import Config
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.t5.config import HF_CODEC, TF1_CODEC, TF1_LOGITS, T5Config
from bert_zoo.json_files import JsonObject
from bert_zoo.weights.formats import TF1, Description, HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec
from bert_zoo.weights.tensor_source import TensorSource

BELOW_HEAD = "transformer."  # before the encoder's names in classes of tasks on texts and tokens
# Tasks whose heads read the decoder in transformers, and names of these heads.
READ_DECODER = (*bert_rows.SENTENCE_TASKS, "question_answering")
DECODER_HEADS = ("classification_head.dense.weight", "qa_outputs.weight")
# In files of version 1.0. The original once had this bias, but no program reads it (transformers#8518).
CROSS_BIAS = r"EncDecAttention[./]relative_attention_bias"


@dataclass(frozen=True, kw_only=True)
class Directory(HuggingFace):
    """Hugging Face's directories.

    Only the tensors show whether the logits have their own table, and whether heads read the decoder.
    """

    renames: ClassVar[tuple[tuple[str, str], ...]] = (*HuggingFace.renames, (f"^{BELOW_HEAD}", ""))

    # Whether transformers' classes of the encoder alone write that they are no encoder-decoder.
    marks_encoders: bool = True

    def told(self, source: TensorSource, config: Config, unsaid: Collection[str]) -> dict[str, Any]:
        told = super().told(source, config, unsaid)
        decodes = any(key.startswith("decoder.") for key in source)
        told["heads_read_decoder"] = decodes and any(key in source for key in DECODER_HEADS)
        # transformers 5 marks all models as tied.
        if decodes and not told["heads_read_decoder"] and not config.scale_logits:
            told["tie_word_embeddings"] = "lm_head.weight" not in source
        return told

    def class_of(self, task: str, config: Config) -> str | None:
        if task in READ_DECODER and not config.heads_read_decoder:
            return None
        return super().class_of(task, config)

    def root_in(self, task: str) -> str:
        return BELOW_HEAD if task in (*bert_rows.SENTENCE_TASKS, "token_classification") else ""

    def encode(self, config: Config, description: Description) -> dict[str, Any]:
        values = super().encode(config, description)
        encoders = {self.classes[task] for task in ("encoder", "token_classification")}
        is_encoder = {*values["architectures"]} <= encoders
        return values | {"is_encoder_decoder": not (is_encoder and self.marks_encoders)}


def computed_activation(config: T5Config) -> str:
    """The activation that transformers uses for the name that is written."""
    return "gelu_tanh" if config.gated and config.activation == "gelu" else config.activation


def hugging_face(
    model_type: str, prefix: str, codec: ConfigCodec = HF_CODEC, **options
) -> Directory:
    """The format of a family's directories.

    Args:
        model_type: `model_type` in its config.json.
        prefix: prefix of transformers' class names.
        options: other arguments of the format.
    """
    return Directory(
        model_type=model_type,
        codec=codec,
        classes={
            "encoder": f"{prefix}EncoderModel",
            "text_to_text": f"{prefix}ForConditionalGeneration",
            **dict.fromkeys(bert_rows.SENTENCE_TASKS, f"{prefix}ForSequenceClassification"),
            "token_classification": f"{prefix}ForTokenClassification",
            "question_answering": f"{prefix}ForQuestionAnswering",
        },
        ignorable=(CROSS_BIAS,),
        supports={
            "activation": computed_activation,
            "attention_dropout": lambda config: config.hidden_dropout,
        },
        **options,
    )


@dataclass(frozen=True, kw_only=True)
class Original(TF1):
    """Checkpoints of google-research/text-to-text-transfer-transformer on Mesh TensorFlow."""

    # Version 1.1 has another name for norms, within the stacks and after them.
    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        (r"^(encoder|decoder)/rms_norm/", r"\1/final_layer_norm/"),
        (r"/rms_norm/", "/layer_norm/"),
    )

    config_file: str = "*.index"
    codec: ConfigCodec = TF1_CODEC
    ignorable: tuple[str, ...] = (
        r"_slot_(m|v|vc|vr)$",
        CROSS_BIAS,
    )  # Adafactor's slots, and a bias that is not read
    rows: int = 0  # rows of the token table, if they distinguish the family from T5; 0: any number

    @property
    def goes_first(self) -> bool:
        return bool(self.rows)

    def told(self, source: TensorSource, config: Config, unsaid: Collection[str]) -> dict[str, Any]:
        is_tied = TF1_LOGITS not in source
        logits = {"tie_word_embeddings": is_tied, "scale_logits": is_tied}
        return {**super().told(source, config, unsaid), **logits}

    def is_of_family(self, values: JsonObject) -> bool:
        rows = values.get("shared/embedding", (None,))[0]
        return rows is not None and self.rows in (0, rows)
