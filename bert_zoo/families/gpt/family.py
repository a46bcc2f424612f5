"""GPT (Radford et al. 2018): BERT's blocks with causal attention."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from bert_zoo.config import UNLIMITED, ConfigError, EncoderConfig, PlainSoftmax, rate
from bert_zoo.families.bert import family as bert
from bert_zoo.families.gpt.cards import GPT, PRESETS
from bert_zoo.family import Family
from bert_zoo.fields import is_integer
from bert_zoo.json_files import JsonObject
from bert_zoo.text.files import VocabularyFiles, read_named_tokens, refuse_others
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.numpy_packing import Layout
from bert_zoo.text.vocabulary_files import read_vocabulary_and_merges
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import EMBED, LAST_WITHOUT_PAD_ID, OUTPUT, Copy, Head, Kind, Row, Stored


@dataclass(frozen=True, kw_only=True)
class CausalConfig(PlainSoftmax, EncoderConfig):
    """A GPT's configuration. Its language model is one cluster of `AdaptiveSoftmax`, without bias."""

    num_segments: int = 0
    pooler: bool = False
    layer_norm_epsilon: float = 1e-5
    activation: str = "gelu_tanh"
    embedding_dropout: float = rate(0.1)  # rate on the sum of the tables
    # Whether attention scores are divided by the root of the head size, and by the number of the layer from 1
    # on. GPT-2's files can say otherwise.
    scale_attention: bool = True
    scale_by_layer: bool = False

    softmax_bias: ClassVar[bool] = False
    output_dropout: ClassVar[float] = 0.0

    def score_scale(self, layer: int) -> float:
        """The factor of a layer's attention scores."""
        scale = (self.hidden_size // self.num_heads) ** -0.5 if self.scale_attention else 1.0
        return scale / (layer + 1) if self.scale_by_layer else scale

    def with_pooler(self, pooler: bool) -> Self:
        return self

    def with_layers(self, layers: Sequence[int]) -> Self:
        if self.scale_by_layer and [*layers] != [*range(len(layers))]:
            raise ConfigError(
                f"Layers {[*layers]} would compute something else in their new places, because scale_by_layer "
                f"divides scores by a layer's number. Choose the first ones, {[*range(len(layers))]}."
            )
        return super().with_layers(layers)


# -------------------------------------------------------------------------------------------------
# What the files of GPT and GPT-2 share: rows, configuration keys, heads.
# -------------------------------------------------------------------------------------------------


# Conv1D's kernels are [in, out] in all programs; the original's have a first axis for a window of one token.
def conv1d(rows: Callable[[Any], int], columns: Callable[[Any], int]) -> Kind:
    """The kind of a dense layer with sizes from the configuration."""
    with_window = Stored("/w", shape=lambda config: (1, rows(config), columns(config)))
    return {
        "kernel": {"pytorch": Stored(".weight"), "tensorflow": with_window},
        "bias": {"pytorch": Stored(".bias"), "tensorflow": Stored("/b")},
    }


NORM: Kind = {
    "gamma": {"pytorch": Stored(".weight"), "tensorflow": Stored("/g")},
    "beta": {"pytorch": Stored(".bias"), "tensorflow": Stored("/b")},
}


def hidden(config: CausalConfig) -> int:
    return config.hidden_size


def inner(config: CausalConfig) -> int:
    return config.intermediate_size


def block_row(kind: Kind, path: str, hf: str) -> Row:
    names = {"hf": f"h.{{i}}.{hf}", "tf1": "h{i}/" + hf.replace(".", "/")}
    return Row(kind, f"stack/layer_{{i}}/{path}", **names)


BLOCK_ROWS = (
    # Fused as ours: queries, keys, values.
    block_row(conv1d(hidden, lambda c: 3 * c.hidden_size), "attention/qkv", "attn.c_attn"),
    block_row(conv1d(hidden, hidden), "attention/output", "attn.c_proj"),
    block_row(NORM, "attention_norm", "ln_1"),
    block_row(conv1d(hidden, inner), "feed_forward/intermediate", "mlp.c_fc"),
    block_row(conv1d(inner, hidden), "feed_forward/output", "mlp.c_proj"),
    block_row(NORM, "output_norm", "ln_2"),
)


def with_inner_size(values: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the default width of the feed-forward layer to a configuration without one."""
    stated = {key: value for key, value in values.items() if value is not None}
    width = stated.get("n_embd")
    usual = {"n_inner": min(4 * width, UNLIMITED)} if is_integer(width) else {"n_inner": width}
    return usual | stated if "n_embd" in stated else stated


def without_inner_size(values: dict[str, Any]) -> dict[str, Any]:
    """Removes that width where it is the default."""
    is_usual = values["n_inner"] == 4 * values["n_embd"]
    return {key: value for key, value in values.items() if key != "n_inner" or not is_usual}


SIZES = [
    ConfigRow("hidden_size", "n_embd"),
    ConfigRow("num_layers", "n_layer"),
    ConfigRow("num_heads", "n_head"),
    ConfigRow("intermediate_size", "n_inner"),
]
ROWS = [
    *SIZES,
    ConfigRow("vocab_size"),
    ConfigRow("max_positions", "n_positions", optional=True),
    ConfigRow("hidden_dropout", "resid_pdrop", optional=True),
    ConfigRow("embedding_dropout", "embd_pdrop", optional=True),
    ConfigRow("attention_dropout", "attn_pdrop", optional=True),
    ConfigRow("layer_norm_epsilon", optional=True),
    ConfigRow("initializer_range", optional=True),
    ConfigRow("tie_word_embeddings", optional=True),
    ConfigRow("pad_id", "pad_token_id", optional=True),
]
# Keys of a multiple-choice head that no released file has. n_ctx repeats n_positions.
IGNORED = frozenset(
    """
    n_ctx n_special predict_special_tokens summary_activation summary_first_dropout
    summary_proj_to_labels summary_type summary_use_proj
    """.split()
)


def table_copies(table: str) -> dict[str, Callable[[CausalConfig], tuple[Copy, ...]]]:
    """Files may also hold the tied table under the head's name."""
    copy = Copy("lm_head.weight", of=f"{{root}}{table}.weight")
    return {"hf": lambda config: () if bert.untied(config) else (copy,)}


def last_token(config: CausalConfig) -> str:
    return LAST_WITHOUT_PAD_ID


def without_bias(config: CausalConfig) -> dict[str, Any]:
    return {"dropout": config.output_dropout, "use_bias": False}


LOGITS = Row(EMBED, "softmax/table_0", hf="lm_head", when=bert.untied)
SCORE = Head(
    (Row({"kernel": OUTPUT["kernel"]}, "classifier/dense", hf="score"),),
    summary=last_token,
    output=without_bias,
)
SENTENCE_HEADS = dict.fromkeys(bert.SENTENCE_TASKS, SCORE)


def hf_classes(prefix: str) -> dict[str, str]:
    return {
        "encoder": f"{prefix}Model",
        "causal_lm": f"{prefix}LMHeadModel",
        **dict.fromkeys(bert.SENTENCE_TASKS, f"{prefix}ForSequenceClassification"),
    }


# -------------------------------------------------------------------------------------------------
# Reads vocabularies of character-level BPE.
# -------------------------------------------------------------------------------------------------

# The tokenizer's special tokens.
ROLES = ("unknown_token", "padding_token")


def read_char_bpe(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads Hugging Face's files and their settings, which `overrides` overrule."""
    vocabulary, merges = read_vocabulary_and_merges(files, _model)
    named = read_named_tokens(files)
    arguments = {
        "vocabulary": vocabulary,
        "merges": merges,
        "source": files.directory,
        "lowercase": files.json("tokenizer_config.json").take("do_lower_case", bool, True),
        **{role: named.special[role] for role in ROLES if role in named.special},
        "added_tokens": named.added_to(vocabulary, files.directory),
        **overrides,
    }
    return TokenizerParts("bert_zoo.families.gpt.text:CharBpeTokenizer", arguments, files.directory)


def _model(serialized: JsonObject) -> JsonObject:
    """Returns the model in a tokenizer.json; raises ConfigError for unsupported settings."""
    model, normalizer = serialized.section("model"), serialized.section("normalizer")
    wanted = [
        ("model.type", model.get("type", "BPE"), "BPE"),
        ("model.dropout", model.get("dropout"), None),
        ("model.continuing_subword_prefix", model.get("continuing_subword_prefix") or "", ""),
        ("model.end_of_word_suffix", model.get("end_of_word_suffix"), "</w>"),
        ("model.fuse_unk", model.get("fuse_unk", False), False),
        ("normalizer.type", normalizer.get("type"), "BertNormalizer"),
        ("normalizer.lowercase", normalizer.get("lowercase"), True),
        ("normalizer.strip_accents", normalizer.get("strip_accents"), None),
        ("normalizer.handle_chinese_chars", normalizer.get("handle_chinese_chars"), True),
        ("pre_tokenizer.type", serialized.section("pre_tokenizer").get("type"), "BertPreTokenizer"),
    ]
    refuse_others(wanted, serialized.where, "GPT's tokenizer here", "a GPT model")
    return model


def backbone(config: CausalConfig, dtype, pre_norm: bool = False):
    """Embeddings without a norm and a stack of causal blocks; with `pre_norm`, a final norm."""
    from bert_zoo.families.gpt.layers import CausalAttention, CausalBackbone, CausalStack
    from bert_zoo.layers import Embeddings, PostNormBlock, PreNormBlock
    from bert_zoo.layers.common import norm

    options = {"initializer_range": config.initializer_range, "dtype": dtype}
    hidden_size, epsilon = config.hidden_size, config.layer_norm_epsilon

    def attention(i: int, **options) -> CausalAttention:
        return CausalAttention(
            config.num_heads,
            hidden_size,
            dropout=config.attention_dropout,
            scale=config.score_scale(i),
            **options,
        )

    block_class = PreNormBlock if pre_norm else PostNormBlock
    blocks = bert.blocks(config, dtype, block_class, attention)
    return CausalBackbone(
        config,
        embeddings=Embeddings(
            config.vocab_size,
            hidden_size,
            embedding_size=hidden_size,
            max_positions=config.max_positions,
            num_segments=0,
            position_offset=0,
            pad_id=config.pad_id,
            epsilon=None,
            dropout=config.embedding_dropout,
            name="embeddings",
            **options,
        ),
        stack=CausalStack(blocks, hidden_size, dtype=dtype, name="stack"),
        final_norm=norm("final_norm", epsilon=epsilon, dtype=dtype) if pre_norm else None,
        dtype=dtype,
    )


DEFAULTS = {"max_positions": 512, "pad_id": None}
# All that transformers has here. "gelu" means the tanh approximation.
ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}
HF_CODEC = ConfigCodec(
    rows=[*ROWS, ConfigRow("activation", "afn", ACTIVATIONS, optional=True)],
    ignored=IGNORED,
    defaults=DEFAULTS,
    config_class=CausalConfig,
    prepare=with_inner_size,
    finish=without_inner_size,
)
ENCODER_ROWS = (
    Row(EMBED, "embeddings/token_embedding", hf="tokens_embed"),
    Row(EMBED, "embeddings/position_embedding", hf="positions_embed"),
    *BLOCK_ROWS,
)
# No special tokens, as in transformers; the texts of a pair are concatenated.
LAYOUT = Layout(single="A", pair="A B", segments=False)

FAMILY = Family(
    name="gpt",
    backbone=backbone,
    defaults={"vocab_size": 40478, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="openai-gpt",
            codec=HF_CODEC,
            root="transformer.",
            classes=hf_classes("OpenAIGPT"),
            ignorable=(r"(^|\.)attn\.bias$", r"(^|\.)position_ids$"),
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads={
        "causal_lm": Head((LOGITS,), copies=table_copies("tokens_embed")),
        **SENTENCE_HEADS,
    },
    text=TextFormat(read_char_bpe, layout=LAYOUT, transformers_class="OpenAIGPTTokenizer"),
    checkpoints=GPT,
    config_class=CausalConfig,
    tasks_without_head=("encoder",),
    params_task="causal_lm",
    presets=PRESETS,
)
