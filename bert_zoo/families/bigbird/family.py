"""BigBird (Zaheer et al. 2020, arXiv:2007.14062): BERT with block-sparse attention for 4,096 tokens."""

from bert_zoo.families.bert import backbone as bert_backbone
from bert_zoo.families.bigbird.checkpoints import CHECKPOINTS
from bert_zoo.families.bigbird.config import DEFAULTS, BigBirdConfig
from bert_zoo.families.bigbird.formats import FORMATS
from bert_zoo.families.bigbird.presets import PRESETS, PRETRAINING
from bert_zoo.families.bigbird.rows import ENCODER_ROWS, HEADS
from bert_zoo.family import Family
from bert_zoo.text.format import TextFormat
from bert_zoo.text.sentencepiece_files import read_sentencepiece
from bert_zoo.text.sentencepiece_model import NEWLINE, PLAIN, Scheme
from bert_zoo.text.vocabulary import special_tokens


def backbone(config: BigBirdConfig, dtype):
    """BERT's layers with sparse attention, and dropout before the norm of the embeddings."""
    from bert_zoo.families.bigbird.sparse_attention import (
        SparseAttention,
        SparseBackbone,
        SparseEmbeddings,
    )
    from bert_zoo.layers import Pooler, Stack

    hidden_size = config.hidden_size
    options = {"initializer_range": config.initializer_range, "dtype": dtype}

    def attention(i: int, **options) -> SparseAttention:
        return SparseAttention(i, config, **options)

    blocks = bert_backbone.blocks(config, dtype, attention=attention)
    return SparseBackbone(
        config,
        embeddings=SparseEmbeddings(
            rescales_tokens=config.rescale_embeddings,
            **bert_backbone.embedding_options(config, dtype),
        ),
        stack=Stack(blocks, hidden_size, dtype=dtype, name="stack"),
        pooler=Pooler(hidden_size, name="pooler", **options) if config.pooler else None,
        dtype=dtype,
    )


SCHEME = Scheme(
    name="bigbird",
    model_file="spiece.model",
    tokenizer_class="BigBirdTokenizer",
    special_tokens=special_tokens("<unk>", "<pad>", "[CLS]", "[SEP]", "[MASK]"),
    options=PLAIN | {"special_tokens_in_text": False},
    begins_word="▁.*",
    original_spaces=NEWLINE,  # run_pretraining.py, --substitute_newline
)

FAMILY = Family(
    name="bigbird",
    backbone=backbone,
    defaults=DEFAULTS,
    formats=FORMATS,
    encoder_rows=ENCODER_ROWS,
    heads=HEADS,
    text=TextFormat(read_sentencepiece, {"scheme": SCHEME}),
    checkpoints=CHECKPOINTS,
    objectives=("masked_lm", "next_sentence"),
    pretraining="whole_words",
    config_class=BigBirdConfig,
    settings=("attention_type", "block_size", "num_random_blocks", "random_blocks"),
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
