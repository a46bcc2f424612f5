"""DeBERTa (He et al. 2020, arXiv:2006.03654): attention by content and by distance apart."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.deberta.checkpoints import CHECKPOINTS
from bert_zoo.families.deberta.config import (
    DEFAULTS,
    HF_CODEC,
    POSITION_TERMS,
    DebertaConfig,
    as_said,
)
from bert_zoo.families.deberta.original import (
    BPE_ENCODER,
    Original,
    read_bpe_encoder,
    with_hugging_faces_keys,
)
from bert_zoo.families.deberta.presets import FIRST_PRETRAINING, PRESETS
from bert_zoo.family import Family
from bert_zoo.text.byte_bpe_files import read_byte_bpe
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.layout import Layout
from bert_zoo.text.vocabulary import special_tokens
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec
from bert_zoo.weights.table import BIAS, DENSE, EMBED, KERNEL, NORM, Copy, Head, Row, Stored


def backbone(config: DebertaConfig, dtype):
    """Token embeddings and a stack of blocks with disentangled attention."""
    from bert_zoo.families.deberta.attention import DisentangledAttention
    from bert_zoo.families.deberta.backbone import DisentangledBackbone
    from bert_zoo.families.deberta.stack import Convolution, DisentangledBlock, DisentangledStack
    from bert_zoo.layers import FeedForward, TokenEmbeddings

    options = {"initializer_range": config.initializer_range, "dtype": dtype}
    hidden_size, epsilon = config.hidden_size, config.layer_norm_epsilon
    normed = {"epsilon": epsilon, "dropout": config.hidden_dropout}

    def block(i: int) -> DisentangledBlock:
        attention = DisentangledAttention(
            config.num_heads,
            hidden_size,
            dropout=config.attention_dropout,
            position_dropout=config.hidden_dropout,
            terms=POSITION_TERMS[config.position_attention],
            shares_projections=config.shares_projections,
            key_bias=config.key_bias,
            name="attention",
            **options,
        )
        feed_forward = FeedForward(
            config.intermediate_size,
            hidden_size,
            activation=config.activation,
            name="feed_forward",
            **options,
        )
        return DisentangledBlock(attention, feed_forward, dtype=dtype, name=f"layer_{i}", **normed)

    convolution = None
    if config.conv_size:
        convolution = Convolution(
            hidden_size,
            config.conv_size,
            activation=config.conv_activation,
            name="convolution",
            **normed,
            **options,
        )
    return DisentangledBackbone(
        config,
        embeddings=TokenEmbeddings(
            config.vocab_size,
            hidden_size,
            max_positions=config.max_positions if config.position_biased_input else 0,
            longest_input=config.max_positions if config.position_biased_input else None,
            num_segments=config.num_segments,
            name="embeddings",
            **normed,
            **options,
        ),
        stack=DisentangledStack(
            [block(i) for i in range(config.num_blocks)],
            hidden_size,
            max_distance=config.longest_distance if config.relative_attention else None,
            buckets=max(config.position_buckets, 0),
            epsilon=epsilon if config.norm_positions else None,
            convolution=convolution,
            name="stack",
            **options,
        ),
        dtype=dtype,
    )


def original(codec: ConfigCodec, **options: Any) -> Original:
    """The format of Microsoft's directories, by the codec of Hugging Face's."""
    return Original(
        codec=replace(
            codec,
            rows=[row for row in codec.rows if row.field != "position_biased_input"],
            # Its own decoder of masks takes positions that the embeddings have added for others.
            fixed={**codec.fixed, "position_biased_input": (False,)},
            prepare=lambda values: as_said(with_hugging_faces_keys(values)),
        ),
        **options,
    )


LM_HEAD = "lm_predictions.lm_head"


def decoder_of_masks(keys: Collection[str], config: DebertaConfig) -> dict[str, Any]:
    """What the names of tensors tell of the head for masked tokens.

    Microsoft's and transformers' of `legacy: false` have the same names, but Microsoft's has a table of
    positions that is not the embeddings', and is in files whose configuration says nothing of it.
    """

    def has(name: str) -> bool:
        return any(f".{name}." in f".{key}" for key in keys)

    if has("cls.predictions"):
        return {"mask_decoder": "legacy"}
    if has(LM_HEAD) and (config.position_biased_input or not has("embeddings.position_embeddings")):
        return {"mask_decoder": "direct", "tie_word_embeddings": True}
    return {}


SELF = f"{bert_rows.LAYER}attention.self."
SHARED_ROWS = (
    *bert_rows.renamed(
        bert_rows.ENCODER_ROWS,
        "hf",
        {},
        lacks="embeddings/position_embedding embeddings/segment_embedding "
        "stack/layer_{i}/attention/qkv pooler/dense",
    ),
    Row(
        EMBED,
        "embeddings/position_embedding",
        hf="embeddings.position_embeddings",
        when=lambda config: config.position_biased_input,
    ),
    Row(
        EMBED,
        "embeddings/segment_embedding",
        hf="embeddings.token_type_embeddings",
        when=lambda config: config.num_segments,
    ),
    Row(
        EMBED,
        "stack/position_embedding",
        hf="encoder.rel_embeddings",
        when=lambda config: config.relative_attention,
    ),
)


def reads(term: str, own: bool = False) -> Callable[[DebertaConfig], bool]:
    """Whether attention has a term of positions; with `own`, and projections of it."""
    return lambda config: (
        term in config.position_attention and not (own and config.shares_projections)
    )


@dataclass(frozen=True)
class PartOfHeads(Stored):
    """Of each head the rows of its query, key and value stand below each other."""

    number: int = 0  # 0, 1 or 2

    def entry(self, block: int, blocks: int) -> tuple[int, int]:
        return self.number, 3

    def joint_shape(self, entry, entries, config):
        return (entries * entry[0], *entry[1:])

    def entry_of(self, tensor, number, entries, config):
        by_head = tensor.reshape(config.num_heads, entries, -1, *tensor.shape[1:])
        return by_head[:, number].reshape(-1, *tensor.shape[1:])

    def joined(self, entries, config):
        by_head = [entry.reshape(config.num_heads, -1, *entry.shape[1:]) for entry in entries]
        return np.concatenate(by_head, axis=1).reshape(-1, *entries[0].shape[1:])


def part_of_heads(number: int):
    """A kernel whose rows stand among those of the other two, head by head."""
    return {"kernel": {"pytorch": PartOfHeads(".weight", transposed=True, number=number)}}


ENCODER_ROWS = (
    *SHARED_ROWS,
    *(
        Row(part_of_heads(number), f"stack/layer_{{i}}/attention/{name}", hf=f"{SELF}in_proj")
        for number, name in enumerate(("query", "key", "value"))
    ),
    Row(BIAS, "stack/layer_{i}/attention/query", hf=f"{SELF}q_bias"),
    Row(BIAS, "stack/layer_{i}/attention/value", hf=f"{SELF}v_bias"),
    Row(KERNEL, "stack/layer_{i}/attention/position_key", hf=f"{SELF}pos_proj", when=reads("c2p")),
    Row(
        DENSE, "stack/layer_{i}/attention/position_query", hf=f"{SELF}pos_q_proj", when=reads("p2c")
    ),
)


def after_pooler(config: DebertaConfig) -> dict[str, Any]:
    return bert_rows.with_layer(config, config.pooler_activation, config.pooler_dropout)


SENTENCE = Head(
    (Row(DENSE, "classifier/transform", hf="pooler.dense"), bert_rows.CLASSIFIER),
    output=after_pooler,
)


def is_legacy(config: DebertaConfig) -> bool:
    return config.mask_decoder == "legacy"


def legacy_copies(config: DebertaConfig) -> tuple[Copy, ...]:
    return bert_rows.MASKED_LM_COPIES["hf"](config) if is_legacy(config) else ()


MASKED_LM = Head(
    (
        Row(
            EMBED,
            "masked_lm/position_embedding",
            hf="deberta.embeddings.position_embeddings",
            when=lambda config: config.enhances_masks,
        ),
        *(
            Row(
                kind,
                ours,
                hf=f"{LM_HEAD}.{name}",
                when=lambda config: not is_legacy(config),
            )
            for kind, ours, name in (
                (DENSE, "masked_lm/transform", "dense"),
                (NORM, "masked_lm/norm", "LayerNorm"),
                (BIAS, "masked_lm", "bias"),
            )
        ),
        *(row.only(is_legacy) for row in bert_rows.MASKED_LM_ROWS),
    ),
    copies={"hf": legacy_copies},
)
HEADS = {
    **bert_rows.TASK_HEADS,
    "masked_lm": MASKED_LM,
    "token_classification": Head((bert_rows.CLASSIFIER,), output=bert_rows.hidden_dropout),
    **dict.fromkeys((*bert_rows.SENTENCE_TASKS, "multiple_choice"), SENTENCE),
}
# Pattern of the characters that are words by themselves: marks and signs, but no part of another character.
ALONE = "[^\\w\ufffd]|_"
SPECIAL_TOKENS = special_tokens("[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]")
LAYOUT = Layout(segments=False)
SEGMENTED = Layout()


def read_vocabulary(files: VocabularyFiles, options: dict[str, Any]) -> TokenizerParts:
    """RoBERTa's way to read bytes, from Hugging Face's files or Microsoft's one."""
    has_own = files.has(BPE_ENCODER) and not files.has("vocab.json")
    return read_byte_bpe(files, options, read=read_bpe_encoder if has_own else None)


class Ported(HuggingFace):
    """Directories whose configuration does not say which head for masked tokens they have."""

    def told(self, source, config, unsaid) -> dict[str, Any]:
        return decoder_of_masks(source, config)

    def supports_in_head(self, task: str) -> Mapping[str, Any]:
        # Not "enhanced": its class of that name leaves the decoder out.
        decoder = lambda config: "legacy" if is_legacy(config) else "direct"  # noqa: E731
        return {"mask_decoder": decoder} if task == "masked_lm" else {}


FAMILY = Family(
    name="deberta",
    backbone=backbone,
    defaults={"vocab_size": 50265, **DEFAULTS},
    formats={
        "hf": Ported(
            model_type="deberta",
            codec=HF_CODEC,
            root="deberta.",
            classes={
                task: name
                for task, name in bert_formats.hf_classes("Deberta").items()
                if task != "multiple_choice"  # for which transformers has no class
            },
        ),
        "microsoft": original(HF_CODEC),
    },
    encoder_rows=ENCODER_ROWS,
    heads=HEADS,
    text=TextFormat(
        read_vocabulary,
        {**SPECIAL_TOKENS, "lstrip_mask": True, "begins_word": f" .*|{ALONE}"},
        LAYOUT,
        segmented=SEGMENTED,
    ),
    checkpoints=CHECKPOINTS,
    pretraining="windowed_ngrams",
    config_class=DebertaConfig,
    presets=PRESETS,
    pretraining_preset=FIRST_PRETRAINING,
)
