"""Hugging Face's format: config.json, and the names and layouts of the classes of transformers."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from bert_zoo.config import ACTIVATIONS as OUR_ACTIVATIONS
from bert_zoo.config import Config, ConfigError, Pooling
from bert_zoo.error_text import shown
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.text.format import DeferredPreprocessor, save_for_transformers
from bert_zoo.weights.files import write_json
from bert_zoo.weights.formats.format import Description, Format, say_what_differs
from bert_zoo.weights.formats.hf_directories import (
    ACTIVATION,
    CROSS_ENCODER,
    OLD_CROSS_ENCODER,
    SCORE_ACTIVATIONS,
    dense_modules,
    modules_of,
    pooling_of,
    prompts_of,
    score_activation_of,
    text_of,
    tokenizer_class_of,
    write_modules,
    write_settings,
    write_text,
    write_transformer,
)
from bert_zoo.weights.formats.hybrid_directories import FIRST, hybrid_of, write_layers
from bert_zoo.weights.formats.late_directories import (
    token_vectors_of,
    write_token_vectors,
)
from bert_zoo.weights.formats.sparse_directories import (
    STATIC_FOLDER,
    model_folder,
    sparse_pooling_of,
    write_sparse,
)
from bert_zoo.weights.table import Row

log = logging.getLogger("bert_zoo")

# Keys that transformers writes into any model's config.json and that change nothing in an encoder:
# bookkeeping, output switches, labels (which are read apart from it), settings of training.
BOOKKEEPING = frozenset(
    """
    _attn_implementation_autoset _commit_hash _name_or_path _num_labels architectures attn_implementation
    auto_map bos_token_id chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id dtype
    eos_token_id eos_token_ids finetuning_task gradient_checkpointing id2label
    keys_to_ignore_at_inference label2id language mask_token_id model_max_length model_name name name_or_path
    num_labels output_attentions output_hidden_states output_past prefix problem_type return_dict
    sep_token_id task_specific_params tf_legacy_loss tokenizer_class torch_dtype torchscript
    transformers_version use_bfloat16 use_cache
    """.split()
)
# What configurations written by transformers 2 to 4 say about generating text, for any model.
GENERATION = frozenset(
    """
    bad_words_ids begin_suppress_tokens diversity_penalty do_sample early_stopping
    encoder_no_repeat_ngram_size exponential_decay_length_penalty forced_bos_token_id
    forced_eos_token_id length_penalty max_length min_length no_repeat_ngram_size num_beam_groups
    num_beams num_return_sequences output_scores remove_invalid_values repetition_penalty
    return_dict_in_generate suppress_tokens temperature top_k top_p typical_p
    """.split()
)
# Keys of a config.json whose weights are quantized.
QUANTIZED = ("quantization_config", "compression_config")
GENERATION_FILE = "generation_config.json"
# Keys of config.json that say something about generation whether or not there is such a file.
START, TASK_PARAMS = "decoder_start_token_id", "task_specific_params"
# Token ids in both files.
GENERATION_IDS = ("bos_token_id", "eos_token_id", "pad_token_id", START)
# Ours, of multi-label models; transformers leaves it unread.
THRESHOLDS = "thresholds"
BESIDE = {THRESHOLDS, CROSS_ENCODER, OLD_CROSS_ENCODER}  # read apart from the encoder's
# What would make another architecture of any encoder.
SWITCHES = {
    "is_decoder": (False,),
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "pruned_heads": ({},),
}
# Its words for activations. "gelu" means erf here and tanh in Google's files. The ones with weights are missing.
ACTIVATIONS = {
    **{name: name for name in OUR_ACTIVATIONS if name != "gelu_tanh"},
    "gelu_new": "gelu_tanh",
    **dict.fromkeys(
        ("gelu_accurate", "gelu_fast", "gelu_python_tanh", "gelu_pytorch_tanh"), "gelu_tanh"
    ),
    "gelu_python": "gelu",
    "swish": "silu",
}


@dataclass(frozen=True, kw_only=True)
class HuggingFace(Format):
    """A family's Hugging Face directories.

    Its codec need not say what is common to all of transformers' configurations.
    """

    name: ClassVar[str] = "hf"
    metadata: ClassVar[Mapping[str, str]] = {"format": "pt"}
    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        (r"(LayerNorm|layer_norm\d)\.gamma$", r"\1.weight"),
        (r"(LayerNorm|layer_norm\d)\.beta$", r"\1.bias"),
    )
    # Pattern within a name in files -> that of transformers' modules, where it is another.
    modules: ClassVar[tuple[tuple[str, str], ...]] = ()
    never_weights: ClassVar[tuple[str, ...]] = (
        r"(^|\.)embeddings\.(position_ids|token_type_ids)$",
        r"(^|\.)pos_emb\.inv_freq$",
    )
    family_key: ClassVar[str] = "model_type"
    program: ClassVar[str] = "Hugging Face transformers"
    has_card: ClassVar[bool] = True
    has_dense_folders: ClassVar[bool] = True

    config_file: str = "config.json"
    model_type: str = ""  # of its config.json
    # The `architectures` entry by task; tasks without a head use the entry of "encoder".
    classes: Mapping[str, str] = field(default_factory=dict)
    # Of its directories, where another family has the same `model_type`; empty for no matter.
    tokenizer_class: str = ""

    def __post_init__(self):
        codec = self.codec
        if codec is not None:
            complete = replace(
                codec,
                fixed={**SWITCHES, **codec.fixed, "model_type": (self.model_type,)},
                ignored=codec.ignored | BOOKKEEPING | GENERATION | BESIDE,
                written={**codec.written, "model_type": self.model_type},
            )
            object.__setattr__(self, "codec", complete)

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        values = read_object(path)
        if key := next((key for key in QUANTIZED if values.get(key) is not None), None):
            said = values[key]
            method = said.get("quant_method") if isinstance(said, Mapping) else None
            raise ConfigError(
                f"{path} has the {key} {shown(method or said)}: its weights are quantized, which is not supported. "
                "Load the model that they were made from, or have transformers turn them back, where it can: "
                "model.dequantize(), then model.save_pretrained(directory)."
            )
        if "model_type" in values and not values.get("tokenizer_class"):
            values["tokenizer_class"] = tokenizer_class_of(path.parent)
        return values

    @property
    def takes_precedence(self) -> bool:
        return bool(self.tokenizer_class)

    def is_of_family(self, values: JsonObject) -> bool:
        named = self.tokenizer_class
        reads = not named or values.take("tokenizer_class", str) == named
        return reads and super().is_of_family(values)

    def class_of(self, task: str, config: Config) -> str | None:
        """The class of transformers for a task's model; "encoder" is one without a head. None for no class."""
        return self.classes.get(task)

    def description(self, values: JsonObject, directory: Path) -> Description:
        labels, late = _labels(values), token_vectors_of(values, directory)
        sparse, folder = sparse_pooling_of(directory), model_folder(directory)
        prompts, pools = prompts_of(directory), sparse is None or sparse.autoencoder is not None
        pooling = pooling_of(directory) if pools and late is None else Pooling()
        if hybrid := hybrid_of(directory):
            tokens, sparse = hybrid
            late = tokens, prompts
            pooling = pooling if modules_of(directory) else FIRST
        # A cross-encoder of several classes is a classifier of pairs.
        has_score = labels is not None and len(labels) == 1
        return Description(
            problem_type=values.take("problem_type", str),
            score_activation=score_activation_of(values, directory) if has_score else None,
            classes=tuple(values.items_of("architectures", str)),
            labels=labels,
            thresholds=values.items_of(THRESHOLDS, float),
            text=text_of(folder),
            pooling=pooling,
            sparse_pooling=sparse,
            prompts=prompts if late is None else late[1],
            token_vectors=late and late[0],
            generation=generation_of(values, folder),
            unsaid=self.codec.unsaid(values),
        )

    def encode(self, config: Config, description: Description) -> dict[str, Any]:
        """The content of config.json."""
        values = {"architectures": list(description.classes), **self.codec.encode(config)}
        values |= description.token_ids
        for generation in description.generation:
            values |= {k: v for k, v in generation.items() if k in (START, TASK_PARAMS)}
        labels = description.labels or ()
        if description.problem_type is not None:
            labels = labels or ("LABEL_0",)  # as transformers names the one of regression
        score = SCORE_ACTIVATIONS.get(description.score_activation)
        optional = {
            "tokenizer_class": self.tokenizer_class,
            "problem_type": description.problem_type,
            "id2label": {str(i): label for i, label in enumerate(labels)},
            "label2id": {label: i for i, label in enumerate(labels)},
            THRESHOLDS: description.thresholds,
            CROSS_ENCODER: None if score is None else {ACTIVATION: score},
            "dtype": description.dtype,
        }
        return values | {key: value for key, value in optional.items() if value}

    def root_in(self, task: str) -> str | None:
        # Hugging Face's bare encoders have no prefix; those in task models have the family's.
        return self.root if task in {*self.classes} - {"encoder"} else ""

    def module_name(self, key: str) -> str:
        for pattern, name in self.modules:
            key = re.sub(pattern, name, key)
        return key

    def check_target(self, directory: Path) -> None:
        path = directory / self.config_file
        model_type = read_object(path).get("model_type") if path.is_file() else None
        if model_type not in (None, self.model_type):
            raise FileExistsError(
                f"{directory} holds a model of the type {shown(model_type)}, but this one is {self.model_type!r}. "
                "Files of the other model, such as its vocabulary, would stay. Save to another directory, or "
                "delete this one first."
            )

    def description_of(
        self, model: Any, family: Any, description: Description, preprocessor: Any
    ) -> Description:
        encoder = getattr(model, "encoder", model)
        config = encoder.config
        makes_tokens, sparse = description.token_vectors is not None, description.sparse_pooling
        is_bare = description.adds_to_encoder or model.task not in family.heads
        if sparse is not None and sparse.of_tokens and not makes_tokens:
            raise ValueError(
                "No program has files for these sparse vectors alone. Load the model for the task that makes all of its "
                "vectors and save that, or leave format out."
            )
        hf_class = self.class_of("encoder" if is_bare else model.task, config)
        if hf_class is None:
            raise ValueError(
                f"Hugging Face transformers has no class for {model.task!r} of the family {family.name}; it has "
                f"classes for {', '.join(self.classes)}. Leave format out, or load and save only the part that "
                "you need."
            )
        if encoder.long_texts.in_windows:
            log.warning(
                "This model reads long texts in windows, which Hugging Face's format cannot express: "
                "transformers will cut them. Load the directory with long_texts=%r, stride=%r.",
                encoder.long_texts.mode,
                encoder.long_texts.stride,
            )
        say_what_differs(self.supports, config, self.classes["encoder"])
        say_what_differs(self.supports_in_head.get(model.task, {}), config, hf_class)
        pools = is_bare and (sparse is not None or not makes_tokens)
        has_pooler = any(getattr(r, "ours", "").startswith("pooler/") for r in family.encoder_rows)
        return replace(
            description,
            classes=(hf_class,),
            pooling=encoder.pooling if pools and not encoder.always_gives_state else None,
            token_ids=_token_ids(preprocessor, description, config),
            generates=model.generates,
            lacks_pooler=is_bare and has_pooler and not config.pooler,
        )

    def write_vocabulary(
        self, directory: Path, preprocessor: Any, text: Any, description: Description
    ) -> None:
        names_padding = description.problem_type is not None
        sparse = description.sparse_pooling
        folders = [directory]
        if sparse is not None and sparse.static_queries:
            folders.append(directory / STATIC_FOLDER)
        for folder in folders:
            folder.mkdir(exist_ok=True)
            save_for_transformers(folder, preprocessor, text, names_padding=names_padding)
            if description.text is not None:
                write_text(folder, description.text)

    def write_beside(
        self,
        directory: Path,
        config: Config,
        description: Description,
        tensors: Mapping[str, Any],
    ) -> None:
        if description.generates:
            # Without it transformers 5 does not know where a text begins and ends.
            values = self.encode(config, description)
            ids = {name: values[name] for name in GENERATION_IDS if name in values}
            (generation,) = description.generation
            generation = {k: v for k, v in generation.items() if k != TASK_PARAMS}
            write_json(directory / GENERATION_FILE, ids | generation)
        pooling, width = description.pooling, config.hidden_size
        if pooling is not None and description.autoencoder is None:
            write_modules(directory, dense_modules(pooling, width, tensors))
            write_transformer(directory, description.text, description.lacks_pooler)
            write_settings(directory, description.prompts, pooling)
        sparse, token_vectors = description.sparse_pooling, description.token_vectors
        if sparse is not None and token_vectors is not None:
            write_layers(directory, tensors)
        elif token_vectors is not None:
            write_token_vectors(directory, description, width, tensors)
        elif sparse is not None:
            write_sparse(directory, description, config, tensors)


def generation_of(values: JsonObject, directory: Path) -> tuple[JsonObject, ...]:
    """What a directory says about generating text: generation_config.json, else config.json as before transformers 4.26.

    Args:
        values: the content of config.json.
    """
    path = directory / GENERATION_FILE
    keys = (START, TASK_PARAMS) if path.is_file() else (*GENERATION, START, TASK_PARAMS)
    said = JsonObject({key: values[key] for key in keys if key in values}, values.where)
    return (read_object(path), said) if path.is_file() else (said,)


def _token_ids(preprocessor, description: Description, config: Config) -> dict[str, int]:
    """Returns the special ids that transformers reads from config.json: begin, end and padding."""
    if preprocessor is None or isinstance(preprocessor, DeferredPreprocessor):
        return {}
    ids = {}
    if hasattr(preprocessor.tokenizer, "eos_id"):
        # Layouts without special tokens use it at the start of a text, too.
        names = (
            ("eos_token_id",)
            if preprocessor.packer.layout.roles
            else ("bos_token_id", "eos_token_id")
        )
        ids = dict.fromkeys(names, preprocessor.tokenizer.eos_id)
    pad_id = preprocessor.packer.pad_id
    # RoBERTa's positions depend on it.
    may_change = not getattr(config, "positions_after_padding", True)
    if may_change and pad_id != config.pad_id and description.problem_type is not None:
        ids["pad_token_id"] = pad_id
    return ids


def _labels(values: JsonObject) -> tuple[str, ...] | None:
    id2label = values.take("id2label", dict)
    if not id2label:
        return None
    by_id = id2label.values_of(str)
    ids = [str(i) for i in range(len(by_id))]
    if set(by_id) != set(ids):
        raise ConfigError(
            f"{id2label.where} must number its labels 0, 1, 2, ...; it is {shown(dict(id2label))}."
        )
    return tuple(by_id[i] for i in ids)


# -------------------------------------------------------------------------------------------------
# Files of original PyTorch programs whose models were later ported to Hugging Face.
# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Torch(Format):
    """A family's original PyTorch files. Rows without their own name have Hugging Face's."""

    name: ClassVar[str] = "torch"
    never_weights: ClassVar[tuple[str, ...]] = HuggingFace.never_weights

    def names(self, row: Row) -> tuple[str, ...]:
        return row.names.get("torch") or row.names.get("hf", ())
