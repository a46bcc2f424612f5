"""Static embeddings: a text's vector is the mean of its tokens' vectors in a table, without a transformer."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bert_zoo.config import UNLIMITED, Config, ConfigError, TextSpec, deviation, rate, size
from bert_zoo.families.bert import family as bert
from bert_zoo.families.static.cards import CHECKPOINTS, PRESETS
from bert_zoo.family import Family
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.text.files import HF_SPECIAL_TOKENS, VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.numpy_packing import PLAIN
from bert_zoo.text.vocabulary_files import (
    Scheme,
    read_bpe,
    read_byte_bpe,
    read_sentencepiece,
    read_wordpiece,
)
from bert_zoo.weights.files import WeightsError, write_json
from bert_zoo.weights.formats import Description, HuggingFace, Model2Vec
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.format import shapes_in
from bert_zoo.weights.formats.hf_directories import (
    MODULES_FILE,
    TABLE,
    TABLE_FOLDER,
    Module,
    check_is_mean,
    dense_modules,
    is_table,
    module_rows,
    modules_of,
    pooling_of,
    prompts_of,
    write_modules,
    write_settings,
)
from bert_zoo.weights.table import EMBED, VECTOR_HEAD, Head, Row, Stored, raw
from bert_zoo.weights.tensor_source import TensorSource


@dataclass(frozen=True, kw_only=True)
class StaticConfig(Config):
    """The configuration of a table of token vectors."""

    on_card: ClassVar[tuple[str, ...]] = ("hidden_size", "vocab_size")
    num_layers: ClassVar[int] = 0

    vocab_size: int = size()  # tokens
    hidden_size: int = size(256)  # width of the table
    # Rows of the table, if several tokens may share one.
    table_rows: int = size(0, least=0, special=(0, "one for each token"))
    token_weights: bool = False  # whether each token's vector is multiplied by a number of its own
    # Id of the tokens that sentence vectors leave out; None for none.
    unk_id: int | None = size(None, least=0)
    initializer_range: float = deviation(1.0)  # standard deviation of a randomly initialised table
    classifier_dropout: float = rate(0.1)  # rate before a fine-tuning head

    @property
    def head_dropout(self) -> float:
        return self.classifier_dropout


# -------------------------------------------------------------------------------------------------
# Files: sentence-transformers' StaticEmbedding and model2vec's. Tensors show the sizes in both.
# -------------------------------------------------------------------------------------------------

TOKENIZER_FILE = "tokenizer.json"
# Names of the table in the files of the two programs, and of what model2vec may have besides.
TABLES, ROW_NUMBERS, WEIGHTS = ("embedding.weight", "embeddings"), "mapping", "weights"


def sizes_of(shapes: Mapping[str, tuple[int, ...]], where: object) -> dict[str, Any]:
    """Our fields by the shapes of a file's tensors."""
    tables = [shapes[key] for key in TABLES if key in shapes]
    if len(tables) != 1 or len(tables[0]) != 2:
        raise ConfigError(f"{where} has no table of token vectors, {' or '.join(TABLES)}.")
    ((rows, width),) = tables
    (tokens,) = shapes.get(ROW_NUMBERS, (rows,))
    return {
        "vocab_size": tokens,
        "hidden_size": width,
        "table_rows": rows if ROW_NUMBERS in shapes else 0,
        "token_weights": WEIGHTS in shapes,
    }


def sizes_in(source: TensorSource) -> dict[str, Any]:
    return sizes_of({key: source.shape(key) for key in source}, source.location)


@dataclass(frozen=True, kw_only=True)
class SentenceTransformers(HuggingFace):
    """sentence-transformers' StaticEmbedding with its modules, which has no config.json."""

    program: ClassVar[str] = "sentence-transformers"
    vocabulary_folder: ClassVar[str] = TABLE_FOLDER

    config_file: str = MODULES_FILE

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        return JsonObject(sizes_of(shapes_in(path.parent), path.parent), path)

    def is_of_family(self, values: JsonObject) -> bool:
        return True

    def decode(self, values: JsonObject, *, where: str) -> Config:
        return StaticConfig(**values)

    def inferred_fields(
        self, source: TensorSource, config: Config, unsaid: Collection[str]
    ) -> dict[str, Any]:
        return sizes_in(source)

    def description(self, values: JsonObject, directory: Path) -> Description:
        path = self.vocabulary_directory(directory) / TOKENIZER_FILE
        cut = read_object(path).section("truncation") if path.is_file() else JsonObject({}, path)
        cut.take("direction", str, choices=("Right",))
        return Description(
            text=TextSpec(None, cut.take("max_length", int, UNLIMITED)),
            pooling=pooling_of(directory),
            prompts=prompts_of(directory),
        )

    def check_target(self, directory: Path) -> None:
        if modules_of(directory) and not is_table(directory):
            raise FileExistsError(
                f"{directory} holds another model of sentence-transformers, whose files would stay. Save to another "
                "directory, or delete this one first."
            )

    def encode(self, config: Config, description: Description) -> list[dict[str, Any]]:
        """The content of modules.json; ValueError if sentence vectors are no mean of all tokens."""
        check_is_mean(description.pooling)
        modules = dense_modules(description.pooling, config.hidden_size, table=Module(TABLE))
        return module_rows(modules)

    def write_vocabulary(
        self, directory: Path, preprocessor: Any, text: Any, description: Description
    ) -> None:
        super().write_vocabulary(directory, preprocessor, text, description)
        if description.text.max_length < UNLIMITED:
            path = directory / TOKENIZER_FILE
            cut = {"direction": "Right", "max_length": description.text.max_length}
            cut |= {"strategy": "LongestFirst", "stride": 0}
            write_json(path, read_object(path) | {"truncation": cut})

    def write_weights(self, directory: Path, tensors: Mapping[str, Any]) -> None:
        super().write_weights(directory, {TABLES[0]: one_row_a_token(tensors)})

    def write_beside(
        self,
        directory: Path,
        config: Config,
        description: Description,
        tensors: Mapping[str, Any],
    ) -> None:
        pooling = description.pooling
        modules = dense_modules(pooling, config.hidden_size, tensors, Module(TABLE))
        write_modules(directory, modules)
        write_settings(directory, description.prompts, pooling)


def one_row_a_token(tensors: Mapping[str, Any]) -> np.ndarray:
    """The table [tokens, width] with the rows that tokens share repeated, times the tokens' weights."""
    rows = np.asarray(tensors[TABLES[0]])
    if ROW_NUMBERS in tensors:
        rows = rows[np.asarray(tensors[ROW_NUMBERS])]
    return rows * np.asarray(tensors[WEIGHTS])[:, None] if WEIGHTS in tensors else rows


@dataclass(frozen=True, kw_only=True)
class StaticModel2Vec(Model2Vec):
    """model2vec's directories: the same table, perhaps with shared rows and weights of tokens."""

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        values = read_object(path)
        sizes = sizes_of(shapes_in(path.parent), path.parent) if cls.wrote(values) else {}
        return JsonObject({**values, **sizes}, path)

    def inferred_fields(
        self, source: TensorSource, config: Config, unsaid: Collection[str]
    ) -> dict[str, Any]:
        sizes = sizes_in(source)
        if sizes["table_rows"]:
            rows = source[ROW_NUMBERS]
            if rows.min() < 0 or rows.max() >= sizes["table_rows"]:
                raise WeightsError(
                    f"{ROW_NUMBERS} in {source.location} names the rows {rows.min()} to {rows.max()}, but the table has "
                    f"{sizes['table_rows']}. Download the file again."
                )
        tokenizer = Path(source.location).with_name(TOKENIZER_FILE)
        return sizes | ({"unk_id": unknown_id(tokenizer)} if tokenizer.is_file() else {})


def unknown_id(path: Path) -> int | None:
    """The id of unknown tokens by a tokenizer.json; None if it has none."""
    model = read_object(path).section("model")
    if model.take("type", str) == "Unigram":
        return model.take("unk_id", int)
    token = model.take("unk_token", str)
    return None if token is None else model.section("vocab").take(token, int)


# -------------------------------------------------------------------------------------------------
# Texts: the tokens of a tokenizer.json of any model, without special tokens around them.
# -------------------------------------------------------------------------------------------------


# Of a vocabulary that bert_zoo writes.
MODEL_FILE, CLASS = "spiece.model", "PreTrainedTokenizerFast"


def read_tokenizer(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads WordPiece, BPE or SentencePiece's unigrams. Other special tokens than that of unknown words have no role."""
    model = files.json(TOKENIZER_FILE).section("model")
    kind = model.take("type", str)
    if kind == "Unigram" or files.has(MODEL_FILE):
        unknown = files.json("tokenizer_config.json").take("unk_token", str)
        if kind == "Unigram":
            unknown, _ = model.take("vocab", list)[model.take("unk_id", int)]
        scheme = Scheme("table", MODEL_FILE, CLASS, {"unknown_token": unknown})
        return read_sentencepiece(files, {"scheme": scheme, **overrides})
    if kind == "BPE":
        return read_bpe(files, overrides)._replace(templates=None)
    if files.has("vocab.json"):  # as bert_zoo writes it
        return read_byte_bpe(files, overrides, **dict.fromkeys(HF_SPECIAL_TOKENS))
    roles = dict.fromkeys(name for name in HF_SPECIAL_TOKENS if name != "unknown_token")
    return read_wordpiece(files, {**roles, **overrides})


def backbone(config: StaticConfig, dtype):
    """A table of token vectors."""
    from bert_zoo.families.static.layers import StaticBackbone

    return StaticBackbone(config, dtype)


def token_row(variable: str, name: str, when: Callable[[Any], bool]) -> Row:
    return Row(raw(variable), "embeddings", hf=name, model2vec=name, when=when)


HEAD = Head((bert.CLASSIFIER,), summary=VECTOR_HEAD.summary)
FAMILY = Family(
    name="static",
    backbone=backbone,
    defaults={},
    formats={
        "hf": SentenceTransformers(classes={"encoder": TABLE}, supports={"unk_id": None}),
        "model2vec": StaticModel2Vec(
            codec=ConfigCodec(
                rows=[
                    *map(ConfigRow, ("vocab_size", "hidden_size", "table_rows", "token_weights"))
                ],
                ignored=Model2Vec.about,
                config_class=StaticConfig,
            )
        ),
    },
    encoder_rows=(
        Row(
            {"embeddings": EMBED["embeddings"] | {"model2vec": Stored("")}},
            "embeddings/token_embedding",
            hf="embedding",
            model2vec="embeddings",
        ),
        token_row("row_numbers", ROW_NUMBERS, lambda config: config.table_rows),
        token_row("token_weights", WEIGHTS, lambda config: config.token_weights),
    ),
    heads=dict.fromkeys(("classification", "multi_label_classification", "regression"), HEAD),
    text=TextFormat(read_tokenizer, layout=PLAIN),
    checkpoints=CHECKPOINTS,
    config_class=StaticConfig,
    presets=PRESETS,
)
