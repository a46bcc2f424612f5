"""XLM (Lample and Conneau 2019, arXiv:1901.07291): BERT's encoder, with the language of each token."""

from bert_zoo.families.bert import backbone as bert_backbone
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.xlm.checkpoints import CHECKPOINTS
from bert_zoo.families.xlm.config import DEFAULTS, HF_CODEC, PROGRAM_CODEC, XlmConfig
from bert_zoo.families.xlm.formats import ProgramFile
from bert_zoo.families.xlm.heads import CHOICE, MASKED_LM, SENTENCE
from bert_zoo.families.xlm.presets import PRESETS, PRETRAINING
from bert_zoo.families.xlm.vocabulary import read_vocabulary
from bert_zoo.family import Family
from bert_zoo.text.format import TextFormat
from bert_zoo.text.layout import Layout
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.table import EMBED, Head, Row


def backbone(config: XlmConfig, dtype):
    """BERT's backbone with language embeddings; hidden states of padding are 0."""
    from bert_zoo.families.xlm.layers import LanguageBackbone, LanguageEmbeddings, PaddingBlock
    from bert_zoo.layers import Stack

    embedding = {
        **bert_backbone.embedding_options(config, dtype),
        "num_languages": config.num_languages if config.reads_languages else 0,
        "initializer_range": config.embedding_initializer_range,
    }
    blocks = bert_backbone.blocks(config, dtype, PaddingBlock)
    return LanguageBackbone(
        config,
        embeddings=LanguageEmbeddings(**embedding),
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
    **bert_formats.hf_classes("XLM"),
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
        *bert_rows.renamed(
            bert_rows.ENCODER_ROWS,
            "hf",
            HF_NAMES,
            lacks="embeddings/segment_embedding pooler/dense",
        ),
        LANGUAGES,
    ),
    heads={
        "masked_lm": MASKED_LM,
        "pretraining": MASKED_LM,
        **dict.fromkeys(bert_rows.SENTENCE_TASKS, SENTENCE),
        "multiple_choice": CHOICE,
        "token_classification": Head((bert_rows.CLASSIFIER,)),
        "question_answering": Head((bert_rows.SPAN,), output=bert_rows.span_dropout),
    },
    text=TextFormat(read_vocabulary, layout=Layout(pair="cls A sep B sep", segments=False)),
    checkpoints=CHECKPOINTS,
    objectives=("masked_lm",),
    pretraining="stream_masked_tokens",
    config_class=XlmConfig,
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
