"""MPNet (Song et al. 2020, arXiv:2004.09297): RoBERTa's positions, BERT's WordPiece, a bias by distance."""

from dataclasses import replace
from typing import Any

from bert_zoo.config import EncoderConfig
from bert_zoo.families.bert import backbone as bert_backbone
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.mpnet.checkpoints import CHECKPOINTS
from bert_zoo.families.mpnet.presets import PRESETS
from bert_zoo.families.roberta import family as roberta
from bert_zoo.families.roberta import formats as roberta_formats
from bert_zoo.family import Family
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.layout import ROBERTA
from bert_zoo.text.vocabulary import special_tokens
from bert_zoo.text.wordpiece_files import read_wordpiece
from bert_zoo.weights.formats import Fairseq, HuggingFace
from bert_zoo.weights.table import EMBED, Row


def backbone(config: EncoderConfig, dtype):
    """BERT's backbone with one bias by distance, which every layer adds to its attention scores."""
    from bert_zoo.layers.relative_bias import BiasedStack, RelativeBias

    bias = RelativeBias(
        config.num_heads,
        initializer_range=config.initializer_range,
        dtype=dtype,
        name="relative_bias",
    )
    stack = BiasedStack(
        bert_backbone.blocks(config, dtype), config.hidden_size, bias, dtype=dtype, name="stack"
    )
    return bert_backbone.backbone(config, dtype, stack)


DEFAULTS = {**roberta_formats.DEFAULTS, "num_segments": 0, "layer_norm_epsilon": 1e-5}
HF_CODEC = replace(
    bert_formats.HF_CODEC,
    # Only the size of the table: transformers always computes with 32 buckets.
    fixed={"relative_attention_num_buckets": (32,)},
    written={"relative_attention_num_buckets": 32},
    # MPNetConfig's default epsilon; all released files state one.
    defaults={**DEFAULTS, "layer_norm_epsilon": 1e-12},
)
FAIRSEQ_CODEC = replace(
    roberta_formats.FAIRSEQ_CODEC,
    fixed={
        **roberta_formats.FAIRSEQ_CODEC.fixed,
        "arch": ("mpnet_base", "mpnet_rel_base", "mpnet_large"),
        "task": ("masked_permutation_lm", "sentence_prediction", "squad2"),
        "use_relative_positions": (True,),
        "normalize_before": (False,),
    },
    defaults={**roberta_formats.FAIRSEQ_CODEC.defaults, **DEFAULTS},
)

# Names that differ from BERT's.
HF_NAMES = {
    "stack/layer_{i}/attention/qkv": tuple(f"{bert_rows.LAYER}attention.attn.{p}" for p in "qkv"),
    "stack/layer_{i}/attention/output": f"{bert_rows.LAYER}attention.attn.o",
    "stack/layer_{i}/attention_norm": f"{bert_rows.LAYER}attention.LayerNorm",
}
ENCODER_ROWS = (
    *bert_rows.renamed(
        roberta.FAMILY.encoder_rows, "hf", HF_NAMES, lacks="embeddings/segment_embedding"
    ),
    Row(
        EMBED,
        "stack/relative_bias",
        hf="encoder.relative_attention_bias",
        fairseq="relative_attention_bias",
    ),
)
SPECIAL_TOKENS = special_tokens("[UNK]", "<pad>", "<s>", "</s>", "<mask>")


def read_vocabulary(files: VocabularyFiles, options: dict[str, Any]) -> TokenizerParts:
    """Reads BERT's WordPiece with fairseq's special tokens around it."""
    return read_wordpiece(files, options, dict_file=True, **SPECIAL_TOKENS)


FAMILY = Family(
    name="mpnet",
    backbone=backbone,
    defaults={"vocab_size": 30527, "max_positions": 514, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="mpnet",
            codec=HF_CODEC,
            root="mpnet.",
            classes=bert_formats.hf_classes("MPNet"),
        ),
        "fairseq": Fairseq(codec=FAIRSEQ_CODEC, root="encoder.sentence_encoder."),
    },
    encoder_rows=ENCODER_ROWS,
    heads=roberta.FAMILY.heads,
    text=TextFormat(read_vocabulary, layout=ROBERTA, transformers_class="MPNetTokenizer"),
    checkpoints=CHECKPOINTS,
    pretraining="whole_words",
    presets=PRESETS,
)
