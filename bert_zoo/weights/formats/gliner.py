"""gliner's directories: gliner_config.json around the configuration of an encoder of transformers."""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from bert_zoo.config import Config, ConfigError, EntityHead
from bert_zoo.error_text import listing, shown
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.weights.formats.format import Description, Format
from bert_zoo.weights.formats.hf import HuggingFace
from bert_zoo.weights.formats.hf_directories import GLINER_FILE, text_of, tokenizer_class_of

GLINER = "gliner"
ENCODER = "encoder_config"
# What gliner adds to a vocabulary besides its markers, before them.
FURTHER_TOKEN = "[FLERT]"
# Its word -> the field of `EntityHead`.
FIELDS = {
    "hidden_size": "size",
    "num_rnn_layers": "lstm_layers",
    "max_width": "max_width",
    "max_len": "max_words",
    "max_types": "max_types",
    "max_neg_type_ratio": "negatives",
    "dropout": "dropout",
    "embed_ent_token": "reads_marker",
    "ent_token": "type_marker",
    "sep_token": "end_marker",
}
# gliner's defaults, where they are others than ours.
DEFAULTS = {"size": 512}
# Settings of other architectures -> the values that mean ours.
ONLY = {
    "span_mode": ("markerV0",),
    "subtoken_pooling": ("first",),
    "words_splitter_type": ("whitespace",),
    "fuse_layers": (False,),
    "post_fusion_schema": ("",),
    "represent_spans": (False,),
    "precomputed_prompts_mode": (None, False),
    "model_type": (None, "gliner_uni_encoder_span", "gliner"),
    **dict.fromkeys(
        (
            *("labels_encoder", "labels_encoder_config", "labels_decoder", "labels_decoder_config"),
            *("relations_layer", "span_encoder_config", "id_to_classes", "decoder_mode"),
        ),
        (None,),
    ),
}
# Bookkeeping, and settings of training and of what `ONLY` excludes.
IGNORED = frozenset(
    """
    _attn_implementation class_token_index fine_tune model_name name neg_spans_ratio num_post_fusion_layers
    span_loss_coef token_loss_coef transformers_version vocab_size

    adjacency_loss_coef architectures data_dir decoder_loss_coef dtype eval_every eval_steps freeze_token_rep
    has_rnn log_dir logging_steps loss_alpha loss_gamma loss_prob_margin loss_reduction lr_encoder lr_others
    num_steps num_train_epochs prev_path random_drop relation_loss_coef root_dir save_total_limit scheduler_type
    shuffle_types size_sup train_batch_size train_data val_data_dir val_data warmup_ratio weight_decay_encoder
    weight_decay_other max_grad_norm label_smoothing negatives masking optimizer size sup torch_dtype gpu run_time
    """.split()
)


def named_encoder(path: Path) -> str | None:
    """The repository that a gliner_config.json names instead of its encoder's configuration; None for other files."""
    values = read_object(path) if path.name == GLINER_FILE else JsonObject({}, path)
    return None if values.section(ENCODER) else values.take("model_name", str)


def gliner_files(fmt: HuggingFace) -> HuggingFace:
    """The format of gliner's directories around the encoders of a family's Hugging Face format."""
    kind = type("GLiNER", (_GLiNER, type(fmt)), {})
    settings = {f.name: getattr(fmt, f.name) for f in fields(fmt) if f.init}
    own = {
        "config_file": GLINER_FILE,
        "root": "token_rep_layer.bert_layer.model.",
        "required_key": r"^prompt_rep_layer\.",
        "encoders": {},
    }
    return kind(**settings | own)


class _GLiNER:
    """What differs from a family's Hugging Face format; mixed into its class."""

    name = GLINER
    rows_of = HuggingFace.name
    program = "gliner"
    has_card = False
    has_dense_folders = False

    def root_in(self, task: str) -> str:
        return self.root

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        """The encoder's part of the file."""
        values = read_object(path)
        encoder = values.section(ENCODER)
        if not encoder:
            raise ConfigError(
                f"{path} has no {ENCODER} and names as its encoder {shown(values.get('model_name'))}, no repository that "
                "bert_zoo knows. Load it once with the package gliner and save it with model.save_pretrained."
            )
        if not encoder.get("tokenizer_class"):
            encoder["tokenizer_class"] = tokenizer_class_of(path.parent)
        return encoder

    def description(self, values: JsonObject, directory: Path) -> Description:
        path = directory / GLINER_FILE
        said = read_object(path)
        return Description(
            text=text_of(directory),
            entity_head=_head_of(said, path),
            unsaid=self.codec.unsaid(values),
        )

    def encode(self, config: Config, description: Description) -> dict[str, Any]:
        """The content of gliner_config.json."""
        head = description.entity_head or EntityHead()
        encoder = super().encode(config, replace(description, token_ids={}))
        encoder.pop("architectures")
        only = {key: values[0] for key, values in ONLY.items() if values[0] is not None}
        return {
            "model_name": self.model_type,
            **{theirs: getattr(head, ours) for theirs, ours in FIELDS.items()},
            "hidden_size": head.size or config.hidden_size,
            **only,
            "model_type": "gliner_uni_encoder_span",
            **description.token_ids,
            ENCODER: encoder,
        }

    def check_target(self, directory: Path) -> None:
        Format.check_target(self, directory)

    def description_of(
        self, model: Any, family: Any, description: Description, preprocessor: Any
    ) -> Description:
        if preprocessor is None:
            raise ValueError(
                "gliner reads texts with a vocabulary, and this model has none. Leave format out, or set "
                "model.preprocessor."
            )
        tokenizer = preprocessor.tokenizer
        index = tokenizer.token_to_id(description.entity_head.type_marker)
        ids = {"class_token_index": index, "vocab_size": tokenizer.vocab_size}
        return replace(description, pooling=None, token_ids=ids)

    def write_beside(
        self, directory: Path, config: Config, description: Description, tensors: Mapping[str, Any]
    ) -> None:
        Format.write_beside(self, directory, config, description, tensors)


def _head_of(said: JsonObject, path: Path) -> EntityHead:
    """How a directory's model finds entities, from its gliner_config.json.

    Raises:
        ConfigError: a key that is unknown, or a value of another architecture.
    """
    if unknown := sorted({*said} - {*FIELDS, *ONLY, *IGNORED, ENCODER}):
        raise ConfigError(
            f"{path} has {listing(unknown)}, which this version of bert_zoo does not know. If they change nothing in "
            "the model's answers, remove them."
        )
    for key, values in ONLY.items():
        if said.get(key, values[0]) not in values:
            raise ConfigError(
                f"{path} has {key} {shown(said[key])}; of GLiNER's architectures, bert_zoo has the one with {key} "
                f"{shown(values[0])}. Use the model with the package gliner."
            )
    given = {ours: said[theirs] for theirs, ours in FIELDS.items() if theirs in said}
    try:
        return JsonObject(DEFAULTS | given, said.where).record(EntityHead, ())
    except ValueError as error:
        raise ConfigError(f"{path} cannot be used: {error}") from error
