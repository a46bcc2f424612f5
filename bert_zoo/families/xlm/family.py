"""XLM (Lample and Conneau 2019, arXiv:1901.07291): BERT's encoder, with the language of each token."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from bert_zoo.config import UNLIMITED, ConfigError, EncoderConfig, deviation, size
from bert_zoo.families.bert import family as bert
from bert_zoo.families.xlm.cards import CHECKPOINTS, PRESETS, PRETRAINING
from bert_zoo.family import Family
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.text.files import AddedToken, VocabularyFiles, read_named_tokens, tokens_by_id
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.numpy_packing import Layout
from bert_zoo.weights.formats import HuggingFace, Torch
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.restricted_pickle import UNREAD_ARRAYS
from bert_zoo.weights.table import BIAS, DENSE, EMBED, OUTPUT, Copy, Head, Row


@dataclass(frozen=True, kw_only=True)
class XlmConfig(EncoderConfig):
    # Width of the feed-forward layer.
    intermediate_size: int = size(0, special=(0, "four times hidden_size"))
    num_languages: int = size(1)  # languages that `language_ids` may name
    language_embeddings: bool = True  # whether `language_ids` are read, if there are several
    # Standard deviation of randomly initialised tables.
    embedding_initializer_range: float = deviation(0.0, special=(0, "1 / sqrt(hidden_size)"))

    def __post_init__(self):
        super().__post_init__()
        width = min(4 * self.hidden_size, UNLIMITED)
        self.__dict__["intermediate_size"] = self.intermediate_size or width
        spread = self.embedding_initializer_range or self.hidden_size**-0.5
        self.__dict__["embedding_initializer_range"] = spread

    @property
    def reads_languages(self) -> bool:
        return self.language_embeddings and self.num_languages > 1


FORMER_KEYS = {"n_words": "vocab_size", "pad_index": "pad_token_id"}


def with_keys_of_today(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a configuration file's content from the keys of transformers 2 and 3."""
    former = {new: values[old] for old, new in FORMER_KEYS.items() if old in values}
    return {**former, **{key: value for key, value in values.items() if key not in FORMER_KEYS}}


DEFAULTS = {"num_segments": 0, "pooler": False, "pad_id": 2}
HF_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size"),
        ConfigRow("hidden_size", "emb_dim"),
        ConfigRow("num_layers", "n_layers"),
        ConfigRow("num_heads", "n_heads"),
        ConfigRow("max_positions", "max_position_embeddings", optional=True),
        ConfigRow("num_languages", "n_langs", optional=True),
        ConfigRow("language_embeddings", "use_lang_emb", optional=True),
        ConfigRow("hidden_dropout", "dropout", optional=True),
        ConfigRow("attention_dropout", optional=True),
        ConfigRow(
            "classifier_dropout", "summary_first_dropout", optional=True, written="head_dropout"
        ),
        ConfigRow("activation", "gelu_activation", {True: "gelu", False: "relu"}, optional=True),
        ConfigRow("layer_norm_epsilon", "layer_norm_eps", optional=True),
        ConfigRow("initializer_range", "init_std", optional=True),
        ConfigRow("embedding_initializer_range", "embed_init_std", optional=True),
        ConfigRow("tie_word_embeddings", optional=True),
        ConfigRow("pad_id", "pad_token_id", optional=True),
    ],
    fixed={
        "asm": (False,),
        "causal": (False,),
        "is_encoder": (True,),
        "share_inout_emb": (True,),
        "summary_type": ("first",),
        "summary_use_proj": (True,),
        "summary_proj_to_labels": (True,),
        "summary_activation": (None,),
    },
    # Ids and names of languages, which the tokenizer's files have, missing heads, and the original program's
    # vocabulary. Sinusoids were only a table's initial values; the table is read from the file.
    ignored=frozenset(
        """
        bos_index end_n_top eos_index id2lang lang2id lang_id mask_index mask_token_id max_vocab
        min_count same_enc_dec sinusoidal_embeddings start_n_top unk_index
        """.split()
    ),
    # XLMConfig's defaults.
    defaults={**DEFAULTS, "classifier_dropout": 0.1, "embedding_initializer_range": 2048**-0.5},
    config_class=XlmConfig,
    prepare=with_keys_of_today,
)

# The program's `params` have the keys of early transformers, and those of the training.
PROGRAM_CODEC = replace(
    HF_CODEC,
    fixed={**HF_CODEC.fixed, "use_memory": (False,)},
    ignored=None,
    defaults=DEFAULTS,
)

# Files of XLM's original program: a .pth with sizes and words, and merges.
#
# The .pth holds `model`, `params`, `dico_id2word` and the state of training; `codes_*` holds fastBPE's
# merges. `vocab_*` repeats the words and is not read.
#
# Source: facebookresearch/XLM xlm/trainer.py, save_checkpoint; xlm/data/dictionary.py.

PROGRAM_FILE = "*.pth"

_ADVICE = (
    "bert_zoo reads .pth files of XLM's program. If it is another program's, put Hugging Face's "
    "config.json of the model beside it."
)


@dataclass(frozen=True, kw_only=True)
class ProgramFile(Torch):
    """The program's .pth. The codec reads its `params`."""

    # From training on several devices.
    renames: ClassVar[tuple[tuple[str, str], ...]] = ((r"^module\.", ""),)

    config_file: str = PROGRAM_FILE

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        return entries_of(path).section("params")


def entries_of(path: Path) -> JsonObject:
    """The entries of a .pth, without reading its tensors."""
    from bert_zoo.weights.torch_bin import read_object

    found = read_object(path, UNREAD_ARRAYS, _ADVICE)
    if not isinstance(found, dict) or not {"params", "dico_id2word"} <= {*found}:
        raise ConfigError(f"{path} has no entries params and dico_id2word. {_ADVICE}")
    return JsonObject(found, path)


DECODER = "pred_layer.proj"


def masked_lm_copies(config: XlmConfig) -> tuple[Copy, ...]:
    table = Copy(f"{DECODER}.weight", of="{root}embeddings.weight")
    return () if bert.untied(config) else (table,)


MASKED_LM = Head(
    (
        Row(EMBED, "masked_lm/decoder", hf=DECODER, when=bert.untied),
        Row(BIAS, "masked_lm", hf=f"{DECODER}.bias"),
    ),
    copies={"hf": masked_lm_copies, "torch": masked_lm_copies},
)
SENTENCE = Head((Row(OUTPUT, "classifier/dense", hf="sequence_summary.summary"),))


def two_numbers(config: XlmConfig) -> dict[str, Any]:
    layer = {"transform": "linear", "transform_size": 2}
    return {"dropout": 0.0, "dropout_first": config.head_dropout, **layer}


# transformers' logits of a classifier with two classes, and a layer that turns them into one number.
CHOICE = Head(
    (
        Row(DENSE, "classifier/transform", hf="sequence_summary.summary"),
        Row(DENSE, "classifier/dense", hf="logits_proj"),
    ),
    output=two_numbers,
)

MERGES_FILE = "codes*"  # the authors' file
NUM_SPECIAL = 14  # words before the corpus's: <s>, </s>, <pad>, <unk>, <special0>, ...
CONTINUED = "@@"  # ends a token that does not end a word
# Special tokens that transformers finds in raw texts although no file names them.
_IN_TEXTS = ("<s>", *(f"<special{number}>" for number in range(10)))


_TOKENIZER = "bert_zoo.families.xlm.text:WordBpeTokenizer"


def read_word_bpe(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads vocab.json, merges.txt and the settings, which `overrides` overrule. Languages are those of `lang2id` in
    tokenizer_config.json or config.json.
    """
    files.require("vocab.json", "merges.txt")
    named = read_named_tokens(files)
    vocabulary = tokens_by_id(files.json("vocab.json"))
    config = files.json("tokenizer_config.json")
    languages = config.section("lang2id")
    if not languages and files.has("config.json"):
        # Not through `files`, which would save what it reads.
        languages = read_object(files.path("config.json")).section("lang2id")
    stated = {
        name: config.take(name, kind) for name, kind in (("language", str), ("pretokenized", bool))
    }
    lowercase = config.take("do_lowercase_and_remove_accent", bool, True)
    arguments = {
        "vocabulary": vocabulary,
        "merges": read_merges(files.lines("merges.txt")),
        "languages": dict(languages.values_of(int)) if languages else None,
        "lowercase": lowercase,
        **{name: value for name, value in stated.items() if value is not None},
        **named.special,
        **_first_token(files),
        "added_tokens": [
            *found_in_texts(vocabulary),
            *named.added_to(vocabulary, files.directory),
        ],
        **overrides,
    }
    return TokenizerParts(_TOKENIZER, arguments, files.directory)


def _first_token(files: VocabularyFiles) -> dict[str, str]:
    """The token at the beginning of a text: in transformers bos_token, not cls_token."""
    found, name = {}, "bos_token"
    for source in (files.json("special_tokens_map.json"), files.json("tokenizer_config.json")):
        if isinstance(source.get(name), dict):
            found["cls_token"] = source.section(name).take("content", str)
        elif name in source:
            found["cls_token"] = source.take(name, str)
    return {option: token for option, token in found.items() if token is not None}


def read_merges(lines: Iterable[str]) -> list[tuple[str, ...]]:
    """Reads the pairs of merges.txt, or of fastBPE's codes, which also have counts."""
    pairs = (tuple(line.split()[:2]) for line in lines)
    return [pair for pair in pairs if len(pair) == 2]


def found_in_texts(vocabulary: Collection[str]) -> list[dict[str, Any]]:
    """Settings of the special tokens that are found in texts although no file names them."""
    found = sorted({*_IN_TEXTS} & {*vocabulary})
    return [AddedToken(content, special=True).as_config() for content in found]


def read_vocabulary(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads Hugging Face's files, or the authors' program's. The latter do not say whether texts were lower-cased; they
    were if no word has a capital letter.
    """
    programs = sorted(files.directory.glob(PROGRAM_FILE))
    if files.has("vocab.json") or not programs:
        return read_word_bpe(files, overrides)
    merges = sorted(file.name for file in files.directory.glob(MERGES_FILE))
    if len(merges) != 1:
        raise FileNotFoundError(
            f"{files.directory} should hold the merges of {programs[0].name} in one file {MERGES_FILE}, "
            f"such as codes_en; it holds {files.names()}."
        )
    entries = entries_of(programs[0])
    tokens = tokens_in(entries)
    languages = dict(entries.section("params").section("lang2id").values_of(int))
    arguments = {
        "vocabulary": tokens,
        # Not through `files`, which would save what it reads.
        "merges": read_merges(VocabularyFiles(files.directory).lines(merges[0])),
        "lowercase": all(token == token.lower() for token in tokens),
        "added_tokens": found_in_texts(tokens),
        # A model of one language reads no language ids.
        **({"languages": languages} if len(languages) > 1 else {"language": next(iter(languages))}),
        **overrides,
    }
    return TokenizerParts(_TOKENIZER, arguments, programs[0])


def tokens_in(entries: JsonObject) -> list[str]:
    """The tokens in the order of their ids; those of the corpus that end a word have "</w>"."""
    words = entries.section("dico_id2word")
    if {*words} != {*range(len(words))}:
        raise ConfigError(f"{words.where} does not number its words from 0 to {len(words) - 1}.")
    words.values_of(str)
    return [
        words[i].removesuffix(CONTINUED)
        if i < NUM_SPECIAL or words[i].endswith(CONTINUED)
        else f"{words[i]}</w>"
        for i in range(len(words))
    ]


def backbone(config: XlmConfig, dtype):
    """BERT's backbone with vectors for tokens' languages (Lample and Conneau 2019, arXiv:1901.07291, section 3.4); hidden
    states of padding are 0.
    """
    from bert_zoo.families.xlm.layers import LanguageBackbone, PaddingBlock
    from bert_zoo.layers import Stack
    from bert_zoo.layers.embeddings import TypedEmbeddings

    embedding = {
        **bert.embedding_options(config, dtype),
        "num_types": config.num_languages if config.reads_languages else 0,
        "type_table": "language_embedding",
        "initializer_range": config.embedding_initializer_range,
    }
    blocks = bert.blocks(config, dtype, PaddingBlock)
    return LanguageBackbone(
        config,
        embeddings=TypedEmbeddings(**embedding),
        stack=Stack(blocks, config.hidden_size, dtype=dtype, name="stack"),
        dtype=dtype,
    )


HF_NAMES = {
    "embeddings/token_embedding": "embeddings",
    "embeddings/position_embedding": "position_embeddings",
    "embeddings/norm": "layer_norm_emb",
    "stack/layer_{i}/attention/qkv": tuple(f"attentions.{{i}}.{p}_lin" for p in "qkv"),
    "stack/layer_{i}/attention/output": "attentions.{i}.out_lin",
    "stack/layer_{i}/attention_norm": "layer_norm1.{i}",
    "stack/layer_{i}/feed_forward/intermediate": "ffns.{i}.lin1",
    "stack/layer_{i}/feed_forward/output": "ffns.{i}.lin2",
    "stack/layer_{i}/output_norm": "layer_norm2.{i}",
}
LANGUAGES = Row(
    EMBED,
    "embeddings/language_embedding",
    hf="lang_embeddings",
    when=lambda config: config.reads_languages,
)
CLASSES = {
    **bert.hf_classes("XLM"),
    **dict.fromkeys(("masked_lm", "pretraining"), "XLMWithLMHeadModel"),
    "question_answering": "XLMForQuestionAnsweringSimple",
}

FAMILY = Family(
    name="xlm",
    backbone=backbone,
    defaults={"vocab_size": 30145, "hidden_size": 2048, "num_heads": 16, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="xlm",
            codec=HF_CODEC,
            root="transformer.",
            classes=CLASSES,
            ignorable=(r"^transformer\.position_ids$",),
            supports={"intermediate_size": lambda config: 4 * config.hidden_size},
        ),
        "torch": ProgramFile(
            codec=PROGRAM_CODEC,
            required_key=r"(^|\.)pred_layer\.",
            sizes={"max_positions": r"^position_embeddings\.weight$"},
        ),
    },
    encoder_rows=(
        *bert.renamed(
            bert.ENCODER_ROWS,
            "hf",
            HF_NAMES,
            lacks="embeddings/segment_embedding pooler/dense",
        ),
        LANGUAGES,
    ),
    heads={
        "masked_lm": MASKED_LM,
        "pretraining": MASKED_LM,
        **dict.fromkeys(bert.SENTENCE_TASKS, SENTENCE),
        "multiple_choice": CHOICE,
        "token_classification": Head((bert.CLASSIFIER,)),
        "question_answering": Head((bert.SPAN,), output=bert.span_dropout),
    },
    text=TextFormat(read_vocabulary, layout=Layout(pair="cls A sep B sep", segments=False)),
    checkpoints=CHECKPOINTS,
    objectives=("masked_lm",),
    pretraining="stream_masked_tokens",
    config_class=XlmConfig,
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
