"""XLM (Lample and Conneau 2019, arXiv:1901.07291): BERT's encoder, with the language of each token."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bert_zoo.config import ConfigError, EncoderConfig, is_integer
from bert_zoo.families.bert import family as bert
from bert_zoo.families.xlm.checkpoints import CHECKPOINTS
from bert_zoo.families.xlm.formats import ProgramFile
from bert_zoo.families.xlm.presets import PRESETS, PRETRAINING
from bert_zoo.families.xlm.vocabulary import read_vocabulary
from bert_zoo.family import Family
from bert_zoo.text.format import TextFormat
from bert_zoo.text.layout import Layout
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import BIAS, DENSE, EMBED, OUTPUT, Copy, Head, Row


@dataclass(frozen=True, kw_only=True)
class XlmConfig(EncoderConfig):
    """What fixes an XLM."""

    intermediate_size: int = 0  # width of the feed-forward layer; 0: four times `hidden_size`
    num_languages: int = 1  # of `language_ids`
    language_embeddings: bool = True  # whether these are read, where there are several
    # Standard deviation of randomly initialised tables; 0: one over the root of their width.
    embedding_initializer_range: float = 0.0

    def __post_init__(self):
        has_width = is_integer(self.hidden_size) and self.hidden_size > 0
        if self.intermediate_size == 0 and has_width:
            object.__setattr__(self, "intermediate_size", 4 * self.hidden_size)
        if self.embedding_initializer_range == 0 and has_width:
            object.__setattr__(self, "embedding_initializer_range", self.hidden_size**-0.5)
        super().__post_init__()
        if problems := self.problems_with(
            positive=("num_languages",),
            natural={},
            rates=(),
            deviations=("embedding_initializer_range",),
            flags=("language_embeddings",),
        ):
            raise ConfigError(" ".join(problems))

    def rough_parameters(self) -> int:
        return super().rough_parameters() + self.num_languages * self.hidden_size

    @property
    def reads_languages(self) -> bool:
        return self.language_embeddings and self.num_languages > 1


def backbone(config: XlmConfig, dtype):
    """BERT's, with languages; hidden states of padding are 0."""
    embedding = {
        "num_languages": config.num_languages if config.reads_languages else 0,
        "initializer_range": config.embedding_initializer_range,
    }
    more = {"num_languages": config.num_languages, "zeroes_padding": True}
    return bert.backbone(config, dtype, embedding=embedding, **more)


FORMER_KEYS = {"n_words": "vocab_size", "pad_index": "pad_token_id"}


def with_keys_of_today(values: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration file's content without the keys of transformers 2 and 3."""
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
    # Ids that the tokenizer's files say, languages by name, heads that are not here, and the original
    # program's vocabulary; sinusoids are how a table began, and what the file holds is what is read.
    ignored=frozenset(
        """
        bos_index end_n_top eos_index id2lang lang2id lang_id mask_index mask_token_id max_vocab
        min_count same_enc_dec sinusoidal_embeddings start_n_top unk_index
        """.split()
    ),
    # XLMConfig's own.
    defaults={**DEFAULTS, "classifier_dropout": 0.1, "embedding_initializer_range": 2048**-0.5},
    config_class=XlmConfig,
    prepare=with_keys_of_today,
)

# The program's `params` have the keys of transformers' first years, and those of the training.
PROGRAM_CODEC = replace(
    HF_CODEC,
    fixed={**HF_CODEC.fixed, "use_memory": (False,)},
    ignored=None,
    defaults=DEFAULTS,
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
SENTENCE = Head((Row(OUTPUT, "classifier/dense", hf="sequence_summary.summary"),), transform=None)
# transformers' logits of a classifier of two classes, and a layer that makes one number of them.
CHOICE = Head(
    (
        Row(DENSE, "classifier/transform", hf="sequence_summary.summary"),
        Row(DENSE, "classifier/dense", hf="logits_proj"),
    ),
    transform="linear",
    transform_size=2,
    dropout=None,
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
            bert.ENCODER_ROWS, "hf", HF_NAMES, lacks="embeddings/segment_embedding pooler/dense"
        ),
        LANGUAGES,
    ),
    heads={
        "masked_lm": MASKED_LM,
        "pretraining": MASKED_LM,
        **dict.fromkeys(bert.SENTENCE_TASKS, SENTENCE),
        "multiple_choice": CHOICE,
        "token_classification": Head((bert.CLASSIFIER,)),
        "question_answering": Head((bert.SPAN,), dropout="span_dropout"),
    },
    text=TextFormat(read_vocabulary, layout=Layout(pair="cls A sep B sep", segments=False)),
    checkpoints=CHECKPOINTS,
    objectives=("masked_lm",),
    pretraining="stream_masked_tokens",
    config_class=XlmConfig,
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
