"""XLNet (Yang et al. 2019, arXiv:1906.08237): a permutation language model with two-stream attention."""

from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.transformer_xl import family as transformer_xl
from bert_zoo.families.xlnet import formats
from bert_zoo.families.xlnet.checkpoints import CHECKPOINTS
from bert_zoo.families.xlnet.config import XLNetConfig
from bert_zoo.families.xlnet.presets import PRESETS, PRETRAINING
from bert_zoo.family import Family
from bert_zoo.text.format import TextFormat
from bert_zoo.text.layout import Layout
from bert_zoo.text.sentencepiece_files import read_sentencepiece
from bert_zoo.text.sentencepiece_model import PLAIN, Scheme
from bert_zoo.text.vocabulary import special_tokens
from bert_zoo.weights.table import Head


def backbone(config: XLNetConfig, dtype):
    """A stack of two-stream blocks with a memory."""
    from bert_zoo.families.xlnet.layers import (
        StreamEmbeddings,
        TwoStreamAttention,
        TwoStreamBackbone,
        TwoStreamStack,
    )

    options = {"initializer_range": config.initializer_range, "dtype": dtype}
    heads = {"num_heads": config.num_heads, "head_size": config.size_of_head}

    def attention() -> TwoStreamAttention:
        return TwoStreamAttention(
            hidden_size=config.hidden_size,
            dropout=config.attention_dropout,
            name="attention",
            **heads,
            **options,
        )

    return TwoStreamBackbone(
        config,
        embeddings=StreamEmbeddings(
            config.vocab_size,
            config.hidden_size,
            dropout=config.hidden_dropout,
            name="embeddings",
            **options,
        ),
        stack=TwoStreamStack(
            [
                transformer_xl.block(i, attention(), config, dtype, pre_lnorm=False)
                for i in range(config.num_layers)
            ],
            config.hidden_size,
            clamp_len=config.clamp_len,
            dropout=config.hidden_dropout,
            name="stack",
            **heads,
            **options,
        ),
        dtype=dtype,
    )


SCHEME = Scheme(
    name="xlnet",
    model_file="spiece.model",
    tokenizer_class="XLNetTokenizer",
    special_tokens=special_tokens("<unk>", "<pad>", "<cls>", "<sep>", "<mask>"),
    options=PLAIN
    | {
        "remove_space": True,
        "keep_accents": False,
        "rewrite_quotes": True,
        "special_tokens_in_text": False,
    },
    splits_number_commas=True,
    begins_word=r"[▁<].*|[!-&(-/:;?-@\[-`{-~]",  # data_utils.py, _is_start_piece
)

FAMILY = Family(
    name="xlnet",
    backbone=backbone,
    defaults={"vocab_size": 32000},
    formats=formats.FORMATS,
    encoder_rows=formats.ENCODER_ROWS,
    heads={
        **dict.fromkeys(("masked_lm", "pretraining"), formats.LANGUAGE_MODEL),
        **dict.fromkeys((*bert_rows.SENTENCE_TASKS, "multiple_choice"), formats.SUMMARY),
        "token_classification": Head((bert_rows.CLASSIFIER,), output=bert_rows.span_dropout),
        "question_answering": Head((bert_rows.SPAN,), output=bert_rows.span_dropout),
        "beam_question_answering": bert_rows.beam_span_head(
            summary=formats.last_real_token, output=bert_rows.hidden_dropout
        ),
    },
    text=TextFormat(
        read_sentencepiece,
        {"scheme": SCHEME},
        Layout("A sep cls:2", "A sep B:1 sep:1 cls:2", padding_side="left", padding_segment=3),
    ),
    checkpoints=CHECKPOINTS,
    objectives=("masked_lm",),
    pretraining="permutations",
    config_class=XLNetConfig,
    settings=("mem_len", "reuse_len", "clamp_len"),
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
