"""MPNet (Song et al. 2020, arXiv:2004.09297): RoBERTa's positions, BERT's WordPiece, a bias by distance."""

from dataclasses import replace
from typing import Any

from bert_zoo.config import EncoderConfig
from bert_zoo.families import roberta
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.cards import ANSWERS, CHOICES, SENTENCES, WORDS, of_glue
from bert_zoo.family import HF, Archive, Checkpoint, Family, Pooling, TextSpec
from bert_zoo.presets import Preset
from bert_zoo.text.files import VocabularyFiles, special_tokens
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.numpy_packing import ROBERTA
from bert_zoo.text.vocabulary_files import read_wordpiece
from bert_zoo.weights.formats import Fairseq, HuggingFace
from bert_zoo.weights.table import EMBED, Row

README = "microsoft/MPNet MPNet/README.glue.md"
PRESETS = (
    Preset("mpnet/glue", (*SENTENCES, *WORDS), roberta.RECIPE, README),
    # The same numbers as RoBERTa's.
    *of_glue("mpnet", roberta.RECIPE, roberta.GLUE, README),
    Preset(
        "mpnet/squad",
        ANSWERS,
        roberta.RECIPE.replace(
            epochs=4,
            batch_size=48,
            learning_rate=2e-5,
            weight_decay=0.01,
            total_steps=5430,
            warmup_steps=326,
        ),
        "microsoft/MPNet MPNet/README.squad.md",
        note="The stride of windows is BERT's; the authors state none.",
    ),
    Preset(
        "mpnet/race",
        CHOICES,
        roberta.RACE,
        "fairseq examples/roberta/README.race.md",
        note="RoBERTa's settings, which MPNet also uses for GLUE; its repository has no multiple choice.",
    ),
)

PAPER = "MPNet: Masked and Permuted Pre-training for Language Understanding, arXiv:2004.09297"
ARCHIVE = "https://modelrelease.blob.core.windows.net/pre-training/MPNet/mpnet.base.tar.gz"

CHECKPOINTS = [
    Checkpoint(
        "mpnet_base",
        # The original has no pooler, and Hugging Face's file was made from it.
        {"pooler": False},
        sources=[HF("microsoft/mpnet-base"), Archive(ARCHIVE)],
        provides=frozenset({"encoder", "masked_lm"}),
        params=108_895_872,
        licence="MIT",
        paper=PAPER,
        text=TextSpec(lowercase=True),
        scores={"SQuAD 1.1 (dev F1)": 92.7, "SQuAD 2.0 (dev F1)": 85.7},
    ),
    Checkpoint(
        "all_mpnet_base_v2",
        {},
        sources=[HF("sentence-transformers/all-mpnet-base-v2")],
        provides=frozenset({"encoder", "embedding"}),
        params=109_486_464,
        licence="Apache-2.0",
        paper="Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks, arXiv:1908.10084",
        text=TextSpec(lowercase=True, max_length=384),
        pooling=Pooling("mean", normalize=True),
        aliases=("all-mpnet-base-v2",),
        note="A sentence encoder for English: mean-pooled, L2-normalised.",
    ),
]


def backbone(config: EncoderConfig, dtype):
    """BERT's backbone with one bias by distance, which every layer adds to its attention scores."""
    from bert_zoo.layers.attention import BiasedStack, RelativeBias

    bias = RelativeBias(
        config.num_heads,
        initializer_range=config.initializer_range,
        dtype=dtype,
        name="relative_bias",
    )
    stack = BiasedStack(
        bert.blocks(config, dtype), config.hidden_size, bias, dtype=dtype, name="stack"
    )
    return bert.backbone(config, dtype, stack)


DEFAULTS = {**roberta.DEFAULTS, "num_segments": 0, "layer_norm_epsilon": 1e-5}
HF_CODEC = replace(
    bert.HF_CODEC,
    # Only the size of the table: transformers always computes with 32 buckets.
    fixed={"relative_attention_num_buckets": (32,)},
    written={"relative_attention_num_buckets": 32},
    # MPNetConfig's default epsilon; all released files state one.
    defaults={**DEFAULTS, "layer_norm_epsilon": 1e-12},
)
FAIRSEQ_CODEC = replace(
    roberta.FAIRSEQ_CODEC,
    fixed={
        **roberta.FAIRSEQ_CODEC.fixed,
        "arch": ("mpnet_base", "mpnet_rel_base", "mpnet_large"),
        "task": ("masked_permutation_lm", "sentence_prediction", "squad2"),
        "use_relative_positions": (True,),
        "normalize_before": (False,),
    },
    defaults={**roberta.FAIRSEQ_CODEC.defaults, **DEFAULTS},
)

# Names that differ from BERT's.
HF_NAMES = {
    "stack/layer_{i}/attention/qkv": tuple(f"{bert.LAYER}attention.attn.{p}" for p in "qkv"),
    "stack/layer_{i}/attention/output": f"{bert.LAYER}attention.attn.o",
    "stack/layer_{i}/attention_norm": f"{bert.LAYER}attention.LayerNorm",
}
ENCODER_ROWS = (
    *bert.renamed(
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
            classes=bert.hf_classes("MPNet"),
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
