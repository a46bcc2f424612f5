"""Formats of Transformer-XL: configuration files and weight tables."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from bert_zoo.families.transformer_xl.checkpoints import WT103_CUTOFFS
from bert_zoo.families.transformer_xl.config import RecurrentConfig
from bert_zoo.weights.formats import TF1, HuggingFace, Torch
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import DENSE, EMBED, KERNEL, NORM, Copy, Row, Stored, raw

SIZES = [
    ConfigRow("hidden_size", "d_model"),
    ConfigRow("num_layers", "n_layer"),
    ConfigRow("num_heads", "n_head"),
    ConfigRow("head_size", "d_head"),
    ConfigRow("embedding_size", "d_embed", optional=True),
]


def with_tie_projs(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts `proj_share_all_but_first` of Hugging Face's older files and the TF program's flags."""
    values = dict(values)
    shared = values.pop("proj_share_all_but_first", True)
    cutoffs = values.get("cutoffs", WT103_CUTOFFS)
    # The configuration raises an error for other values.
    clusters = len(cutoffs) if isinstance(cutoffs, list | tuple) else 0
    return {"tie_projs": [False, *[shared] * clusters], **values}


# TransfoXLConfig's defaults for keys that a file lacks: wt103's.
HF_DEFAULTS = {
    "cutoffs": WT103_CUTOFFS,
    "div_val": 4,
    "mem_len": 1600,
    "clamp_len": 1000,
    "same_length": True,
    "same_length_keys": "mem_len",
    "untie_r": True,
    "layer_norm_epsilon": 1e-5,
}
HF_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size"),
        *SIZES,
        ConfigRow("intermediate_size", "d_inner"),
        ConfigRow("layer_norm_epsilon", optional=True),
        ConfigRow("hidden_dropout", "dropout", optional=True),
        ConfigRow("attention_dropout", "dropatt", optional=True),
        ConfigRow("initializer_range", "init_std", optional=True),
        ConfigRow("projection_initializer_range", "proj_init_std", optional=True),
        *(
            ConfigRow(name, optional=True)
            for name in (
                *("cutoffs", "div_val", "tie_projs", "tie_word_embeddings", "untie_r"),
                *("pre_lnorm", "mem_len", "clamp_len", "same_length"),
                # Not in Hugging Face's class, which has one choice for each and ignores them.
                *("proj_same_dim", "same_length_keys", "memory_start"),
            )
        ),
    ],
    fixed={"attn_type": (0,), "sample_softmax": (-1, 0)},
    ignored=frozenset({"adaptive", "ext_len", "init", "init_range", "pad_token_id", "tgt_len"}),
    defaults=HF_DEFAULTS,
    config_class=RecurrentConfig,
    prepare=with_tie_projs,
)


PROJECTION = {"kernel": {"pytorch": Stored("", transposed=True), "tensorflow": Stored("")}}
TF1_SOFTMAX = "transformer/adaptive_softmax/"


class Stacked(Stored):
    """One tensor holds a variable of all blocks."""

    def entry(self, block: int, blocks: int) -> tuple[int, int]:
        return block, blocks


class Reversed(Stored):
    """Rows are stored in reverse order."""

    def to_ours(self, tensor, part, config):
        return tensor[::-1]

    def to_stored(self, part, config):
        return part[::-1]


class ByCluster(Stored):
    """A tensor for each cluster of tokens."""

    def sizes(self, size: int, parts: int, config: RecurrentConfig) -> tuple[int, ...]:
        return config.cluster_sizes if parts > 1 else (size,)


def tf1_scope(config: RecurrentConfig, cluster: int) -> str:
    """The TF program's scope of a cluster; empty if all clusters share one table."""
    return "" if config.div_val == 1 else f"cutoff_{cluster}/"


def embedding_rows(config: RecurrentConfig) -> Iterator[Row]:
    for table, projected in enumerate(config.is_projected):
        scope = f"adaptive_embed/{tf1_scope(config, table)}"
        yield Row(
            EMBED,
            f"embeddings/table_{table}",
            hf=f"word_emb.emb_layers.{table}",
            tf1=f"{scope}lookup_table",
        )
        if projected:
            yield Row(
                PROJECTION,
                f"embeddings/projection_{table}",
                hf=f"word_emb.emb_projs.{table}",
                tf1=f"{scope}proj_W",
            )


def bias_rows(config: RecurrentConfig) -> Iterator[Row]:
    """The biases u and v: one pair, or one pair per layer, which the TF program stores in one tensor."""
    for variable, name in (("content_bias", "r_w_bias"), ("position_bias", "r_r_bias")):
        if config.untie_r:
            ours, hf = "stack/layer_{i}/attention", f"layers.{{i}}.dec_attn.{name}"
            yield Row(raw(variable, tf1=Stacked("")), ours, hf=hf, tf1=name)
        else:
            yield Row(raw(variable), "stack", hf=name, tf1=name)


def block_row(kind, ours: str, hf: str, tf1: str) -> Row:
    return Row(kind, f"stack/layer_{{i}}/{ours}", hf=f"layers.{{i}}.{hf}", tf1=f"layer_{{i}}/{tf1}")


ENCODER_ROWS = (
    embedding_rows,
    bias_rows,
    block_row(KERNEL, "attention/qkv", "dec_attn.qkv_net", "rel_attn/qkv"),
    block_row(KERNEL, "attention/position", "dec_attn.r_net", "rel_attn/r"),
    block_row(KERNEL, "attention/output", "dec_attn.o_net", "rel_attn/o"),
    block_row(NORM, "attention_norm", "dec_attn.layer_norm", "rel_attn/LayerNorm"),
    block_row(DENSE, "feed_forward/intermediate", "pos_ff.CoreNet.0", "ff/layer_1"),
    block_row(DENSE, "feed_forward/output", "pos_ff.CoreNet.3", "ff/layer_2"),
    block_row(NORM, "output_norm", "pos_ff.layer_norm", "ff/LayerNorm"),
)


def softmax_rows(config: RecurrentConfig) -> Iterator[Row]:
    if config.cutoffs:
        # The PyTorch original stores the head's cluster rows in reverse order.
        for ours, theirs in (("cluster_weight", "cluster_W"), ("cluster_bias", "cluster_b")):
            yield Row(
                raw(ours, torch=Reversed("")),
                "softmax",
                hf=f"crit.{ours}",
                tf1=f"{TF1_SOFTMAX}cutoff_0/{theirs}",
            )
    clusters = range(len(config.cluster_sizes))
    for table in range(len(config.table_sizes)):
        scoped = [table] if config.div_val > 1 else clusters
        biases = tuple(f"{TF1_SOFTMAX}cutoff_{cluster}/b" for cluster in scoped)
        yield Row(
            raw(f"bias_{table}", tf1=ByCluster("")),
            "softmax",
            hf=f"crit.out_layers.{table}.bias",
            tf1=biases if config.cutoffs else f"{TF1_SOFTMAX}bias",
        )
        if not config.tie_word_embeddings:
            yield Row(EMBED, f"softmax/table_{table}", hf=f"crit.out_layers.{table}")
    for cluster in clusters:
        if config.has_own_projection(cluster):
            yield Row(
                raw(f"projection_{cluster}", pytorch=Stored("", transposed=True)),
                "softmax",
                hf=f"crit.out_projs.{cluster}",
                tf1=f"{TF1_SOFTMAX}cutoff_{cluster}/proj",
            )


def softmax_copies(config: RecurrentConfig) -> tuple[Copy, ...]:
    """PyTorch's files may hold tied tensors under both names."""
    tables = range(len(config.table_sizes)) if config.tie_word_embeddings else ()
    layer, projection = "{root}word_emb.emb_layers.", "{root}word_emb.emb_projs."
    copies = [Copy(f"crit.out_layers.{i}.weight", of=f"{layer}{i}.weight") for i in tables]
    for cluster in range(len(config.cluster_sizes)):
        table = config.table_of(cluster)
        if config.is_projected[table] and config.shares_projection(cluster):
            copies.append(Copy(f"crit.out_projs.{cluster}", of=f"{projection}{table}"))
    return tuple(copies)


def hf_copies(config: RecurrentConfig) -> tuple[Copy, ...]:
    """Hugging Face's layers also hold the shared biases."""
    biases = (
        Copy(f"{{root}}layers.{layer}.dec_attn.{name}", of=f"{{root}}{name}")
        for layer in range(config.num_layers)
        for name in ("r_w_bias", "r_r_bias")
    )
    return (*softmax_copies(config), *(() if config.untie_r else biases))


class WithFrequencies(HuggingFace):
    """Writes the sinusoids' frequencies too, because Hugging Face's class expects them in files."""

    def buffers(self, config: RecurrentConfig) -> dict[str, Any]:
        import numpy as np

        evens = np.arange(0, config.hidden_size, 2, dtype=np.float32)
        return {"pos_emb.inv_freq": 1 / (np.float32(10000) ** (evens / config.hidden_size))}


def unless_said(values: Mapping[str, Any], unsaid: Collection[str]) -> dict[str, Any]:
    """A program's defaults for the fields that another program's configuration file lacks."""
    return {name: value for name, value in values.items() if name in unsaid}


class OriginalTorch(Torch):
    def told(self, source, config, unsaid) -> dict[str, Any]:
        return unless_said({"memory_start": "empty"}, unsaid)


class OriginalTF1(TF1):
    def told(self, source, config, unsaid) -> dict[str, Any]:
        usual = {"same_length_keys": "mem_len+1", "layer_norm_epsilon": 1e-12}
        return unless_said(usual, unsaid)


FORMATS = {
    "hf": WithFrequencies(
        model_type="transfo-xl",
        codec=HF_CODEC,
        root="transformer.",
        classes={"encoder": "TransfoXLModel", "causal_lm": "TransfoXLLMHeadModel"},
        supports={"proj_same_dim": True, "same_length_keys": "mem_len", "memory_start": "zeros"},
    ),
    # A bare Hugging Face encoder has no softmax and no prefix; the original always has a softmax.
    "torch": OriginalTorch(required_key=r"(^|\.)crit\."),
    "tf1": OriginalTF1(root="transformer/"),
}
