"""GPT-2 (Radford et al. 2019): GPT with pre-norm layers and byte-level BPE."""

from dataclasses import replace
from typing import Any

from bert_zoo.config import EncoderConfig
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.cards import ANSWERS, WORDS
from bert_zoo.families.gpt import cards as gpt_cards
from bert_zoo.families.gpt import family as gpt
from bert_zoo.families.gpt.cards import GPT2
from bert_zoo.families.gpt.family import CausalConfig
from bert_zoo.family import Family
from bert_zoo.presets import Preset
from bert_zoo.text.files import VocabularyFiles, special_tokens
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.vocabulary_files import read_byte_bpe
from bert_zoo.weights.formats import TF1, HuggingFace, keras_hub
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import EMBED, Head, Row


def backbone(config: EncoderConfig, dtype):
    return gpt.backbone(config, dtype, pre_norm=True)


DEFAULTS = {"max_positions": 1024, "pad_id": None}
HF_CODEC = replace(
    gpt.HF_CODEC,
    rows=[
        *gpt.ROWS,
        ConfigRow("activation", "activation_function", ACTIVATIONS, optional=True),
        ConfigRow("classifier_dropout", optional=True),
        ConfigRow("scale_attention", "scale_attn_weights", optional=True),
        ConfigRow("scale_by_layer", "scale_attn_by_inverse_layer_idx", optional=True),
    ],
    # Changes only the order of products, for float16.
    ignored=gpt.IGNORED | {"reorder_and_upcast_attn"},
    defaults=DEFAULTS,
)
TF1_CODEC = ConfigCodec(
    rows=[ConfigRow("vocab_size", "n_vocab"), ConfigRow("max_positions", "n_ctx"), *gpt.SIZES],
    defaults=DEFAULTS,
    config_class=CausalConfig,
    prepare=gpt.with_inner_size,
)
ENCODER_ROWS = (
    Row(EMBED, "embeddings/token_embedding", hf="wte", tf1="wte"),
    Row(EMBED, "embeddings/position_embedding", hf="wpe", tf1="wpe"),
    *gpt.BLOCK_ROWS,
    Row(gpt.NORM, "final_norm", hf="ln_f", tf1="ln_f"),
)
END = "<|endoftext|>"


def read_vocabulary(files: VocabularyFiles, options: dict[str, Any]) -> TokenizerParts:
    """Reads RoBERTa's byte-level BPE, with one special token for the end of text and for padding."""
    named = special_tokens(END, END, None, None, None)
    return read_byte_bpe(files, options, eos_token=END, **named)


FAMILY = Family(
    name="gpt2",
    backbone=backbone,
    defaults={"vocab_size": 50257, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="gpt2",
            codec=HF_CODEC,
            root="transformer.",
            classes={
                **gpt.hf_classes("GPT2"),
                "token_classification": "GPT2ForTokenClassification",
                "question_answering": "GPT2ForQuestionAnswering",
            },
            # The causal mask, which early files hold.
            ignorable=(r"(^|\.)attn\.(masked_)?bias$",),
        ),
        "tf1": TF1(codec=TF1_CODEC, config_file="hparams.json", root="model/"),
        "keras_hub": keras_hub.KerasHub(
            class_name="GPT2Backbone",
            codec=keras_hub.codec(defaults=DEFAULTS, config_class=CausalConfig),
            layers={
                **keras_hub.TABLES,
                **keras_hub.block_names("transformer_decoder"),
                "final_norm": "layers/layer_normalization",
            },
            supports={"scale_attention": True, "scale_by_layer": False},
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads={
        "causal_lm": Head((gpt.LOGITS,), copies=gpt.table_copies("wte")),
        **gpt.SENTENCE_HEADS,
        "token_classification": bert.TASK_HEADS["token_classification"],
        "question_answering": bert.TASK_HEADS["question_answering"],
    },
    text=TextFormat(read_vocabulary, layout=gpt.LAYOUT, transformers_class="GPT2Tokenizer"),
    checkpoints=GPT2,
    config_class=CausalConfig,
    tasks_without_head=("encoder",),
    params_task="causal_lm",
    presets=[
        Preset(
            "gpt2/finetuning",
            (*preset.tasks, *WORDS, *ANSWERS),
            preset.recipe,
            preset.source,
            note="GPT's settings; GPT-2's paper has no fine-tuning.",
        )
        for preset in gpt_cards.PRESETS
    ],
)
