"""The families of golden checkpoints and their cases: how each is made, in a table.

What a case shows stands in tests/golden/<family>/cases.json. Functions that a single family needs are in
`golden_released.py` (files as they are in circulation), `golden_quirks.py` and the families' own modules.
"""

import functools

import golden_bigbird
import golden_deberta
import golden_longformer as longformer
import golden_quirks as quirks
import golden_released as released
import golden_spanbert
import golden_t5 as t5
import golden_vocabularies as vocabularies
import golden_xlnet
import torch
from golden_case import (
    POSITIONS,
    TINY_SIZES,
    Case,
    Family,
    Tokens,
    batch_inputs,
    choice_inputs,
    labelled,
    random_inputs,
)
from golden_vocabularies import wordpiece


def rows(*lengths: int):
    """Inputs of these lengths."""
    return functools.partial(random_inputs, lengths=lengths)


def under(root: str, names: str) -> tuple[str, ...]:
    """Names of parameters below a root."""
    return tuple(f"{root}{name}" for name in names.split())


LONGEST = rows(POSITIONS, 23)
SINGLE_LABEL = {"problem_type": "single_label_classification"}
REGRESSION = {"num_labels": 1, "problem_type": "regression"}
TAGS = labelled("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
SENTIMENT = SINGLE_LABEL | labelled("negative", "neutral", "positive")
ENTAILMENT = SINGLE_LABEL | labelled("contradiction", "neutral", "entailment")
NO_YES = labelled("no", "yes")
RATES = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.05}
RELU = {"hidden_act": "relu"}
UNTIED = {"tie_word_embeddings": False}
# Enough for a head or a quirk of files, and smaller.
ONE_LAYER, TWO_LAYERS = {"num_hidden_layers": 1}, {"num_hidden_layers": 2}
NO_POOLER = {"add_pooling_layer": False}


def heads(small: dict, choices=choice_inputs) -> dict[str, Case]:
    """The heads that every family has alike, on a smaller model."""
    return {
        "regression": Case(small | REGRESSION),
        "token_classification": Case(small | TAGS),
        "multiple_choice": Case(small, make_inputs=choices),
    }


FAMILIES: dict[str, Family] = {}

# --- BERT ----------------------------------------------------------------------------------------

BERT_TOKENS = Tokens(pad=0, first=2, last=3, first_ordinary=5)
OF_BERTS_WORDS = {"vocab_size": len(vocabularies.BERT), "max_position_embeddings": POSITIONS}
BERT_GRADIENTS = under(
    "bert.",
    """embeddings.word_embeddings.weight embeddings.position_embeddings.weight
    embeddings.token_type_embeddings.weight embeddings.LayerNorm.weight
    encoder.layer.0.attention.self.query.weight encoder.layer.0.attention.self.key.weight
    encoder.layer.1.attention.self.value.bias encoder.layer.1.attention.output.LayerNorm.bias
    encoder.layer.2.intermediate.dense.weight encoder.layer.2.output.dense.bias""",
)
CLASSIFIER = ("bert.pooler.dense.weight", "classifier.weight", "classifier.bias")
BERT_HEAD = under("cls.predictions.", "transform.dense.weight transform.LayerNorm.weight bias")
TOXIC = labelled("toxic", "obscene", "threat", "insult")
FAMILIES["bert"] = Family(
    "Bert",
    TINY_SIZES | OF_BERTS_WORDS | {"num_hidden_layers": 3},
    BERT_TOKENS,
    wordpiece(vocabularies.BERT, "BertTokenizer"),
    {
        "encoder": Case(internals=True),
        "encoder_no_pooler": Case(model_arguments=NO_POOLER),
        "encoder_bert_prefix": Case(TWO_LAYERS, save=released.save_prefixed),
        "masked_lm": Case(gradients=BERT_GRADIENTS + BERT_HEAD),
        "masked_lm_untied": Case(TWO_LAYERS | UNTIED),
        "pretraining": Case(),
        "next_sentence_prediction": Case(TWO_LAYERS),
        "classification": Case(
            SENTIMENT,
            BERT_GRADIENTS + CLASSIFIER,
            make_inputs=quirks.text_inputs,
            make_training=quirks.reference_training,
        ),
        "classification_dropout": Case(TWO_LAYERS | NO_YES | RATES | {"classifier_dropout": 0.3}),
        "multi_label_classification": Case(
            TWO_LAYERS | TOXIC | {"problem_type": "multi_label_classification"},
            tuple(name for name in BERT_GRADIENTS if "layer.2" not in name) + CLASSIFIER,
        ),
        "question_answering": Case(TWO_LAYERS, make_inputs=LONGEST),
        **heads(TWO_LAYERS),
        "legacy_names": Case(TWO_LAYERS, save=released.save_2018_safetensors),
        "sharded": Case(TWO_LAYERS, save=released.save_sharded),
        "bin_zip": Case(TWO_LAYERS, save=functools.partial(released.save_2018_bin, zipped=True)),
        "bin_legacy": Case(TWO_LAYERS, save=released.save_2018_bin),
        "gelu_new": Case(TWO_LAYERS | {"hidden_act": "gelu_new"}),
        "relu": Case(TWO_LAYERS | RELU),
        "layer_norm_eps": Case(TWO_LAYERS | {"layer_norm_eps": 1e-5}),
        "type_vocab_size_3": Case(TWO_LAYERS | {"type_vocab_size": 3}),
        "type_vocab_size_1": Case(TWO_LAYERS | {"type_vocab_size": 1}),
        "float16_weights": Case(TWO_LAYERS, dtype=torch.float16),
        "bfloat16_weights": Case(TWO_LAYERS, dtype=torch.bfloat16),
        "config_minimal": Case(TWO_LAYERS, edit_config=released.minimal_config),
        "config_pooler_fields": Case(TWO_LAYERS, edit_config=released.pooler_fields_config),
        "config_verbose": Case(
            TWO_LAYERS | labelled("negative", "neutral", "positive"),
            edit_config=released.verbose_config,
        ),
    },
)

# --- RoBERTa, and what reads as it does ----------------------------------------------------------

ROBERTA_TOKENS = Tokens(pad=1, first=0, last=2, first_ordinary=4)
AFTER_PADDING = TINY_SIZES | {
    "max_position_embeddings": 2 + POSITIONS,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
ROBERTA_GRADIENTS = under(
    "roberta.",
    """embeddings.word_embeddings.weight embeddings.position_embeddings.weight
    embeddings.LayerNorm.weight encoder.layer.0.attention.self.query.weight
    encoder.layer.1.attention.self.value.bias encoder.layer.1.output.dense.bias""",
)
TWO_DENSE = under("classifier.", "dense.weight out_proj.weight out_proj.bias")
FAIRSEQ_HEAD = under("lm_head.", "dense.weight layer_norm.weight bias")
FAMILIES["roberta"] = Family(
    "Roberta",
    AFTER_PADDING | {"vocab_size": len(vocabularies.ROBERTA)},
    ROBERTA_TOKENS,
    vocabularies.write_roberta,
    {
        "encoder": Case(make_inputs=quirks.padded_inputs, internals=True),
        "encoder_no_pooler": Case(model_arguments=NO_POOLER),
        "masked_lm": Case(
            gradients=ROBERTA_GRADIENTS + FAIRSEQ_HEAD,
            edit_weights=released.half_without_token_types,
        ),
        "masked_lm_untied": Case(UNTIED),
        "masked_lm_relu": Case(RELU),
        "classification": Case(
            ENTAILMENT | {"classifier_dropout": 0.3},
            ROBERTA_GRADIENTS + TWO_DENSE,
            edit_weights=released.without_token_types,
        ),
        "question_answering": Case(make_inputs=LONGEST),
        **heads(ONE_LAYER),
        "bin_legacy": Case(save=released.save_with_positions, edit_config=released.roberta_config),
        "fairseq_old": Case(make=released.make_fairseq_2019),
        "fairseq_new": Case(make=released.make_fairseq_2021),
    },
    has_segments=False,
)
# <s>, <pad>, </s>, <unk>, the pieces behind SentencePiece's own first three, and <mask>.
XLM_ROBERTA_SIZE = 4 + vocabularies.PIECES - 3 + 1
FAMILIES["xlm_roberta"] = Family(
    "XLMRoberta",
    AFTER_PADDING | {"vocab_size": XLM_ROBERTA_SIZE},
    ROBERTA_TOKENS,
    vocabularies.write_xlm_roberta,
    {
        "encoder": Case(make_inputs=quirks.padded_inputs),
        "masked_lm": Case(),
        "classification": Case(labelled("contradiction", "neutral", "entailment")),
    },
    has_segments=False,
)
FAMILIES["camembert"] = Family(
    "Camembert",
    # <s>NOTUSED, <pad>, </s>NOTUSED, <unk>, all pieces, and <mask>.
    AFTER_PADDING
    | {"vocab_size": 4 + vocabularies.PIECES + 1, "bos_token_id": 5, "eos_token_id": 6},
    Tokens(pad=1, first=5, last=6, first_ordinary=7),
    vocabularies.write_camembert,
    {"encoder": Case(), "masked_lm": Case()},
    has_segments=False,
)
FAMILIES["bertweet"] = Family(
    "Roberta",
    AFTER_PADDING | {"vocab_size": vocabularies.BERTWEET_SIZE},
    ROBERTA_TOKENS,
    vocabularies.write_bertweet,
    {"encoder": Case(), "masked_lm": Case()},
    has_segments=False,
    edit_config=released.names_tokenizer("BertweetTokenizer"),
)
FAMILIES["multilingual_minilm"] = Family(
    "Bert",
    # Two rows more than there are tokens, as in the released files.
    TINY_SIZES | {"max_position_embeddings": POSITIONS, "vocab_size": XLM_ROBERTA_SIZE + 2},
    ROBERTA_TOKENS,
    vocabularies.write_xlm_roberta,
    {"encoder": Case()},
    has_segments=False,
    edit_config=released.names_tokenizer("XLMRobertaTokenizer"),
)

# --- ALBERT --------------------------------------------------------------------------------------

ALBERT_GRADIENTS = under(
    "albert.",
    """embeddings.word_embeddings.weight embeddings.position_embeddings.weight
    embeddings.token_type_embeddings.weight embeddings.LayerNorm.weight
    encoder.embedding_hidden_mapping_in.weight""",
) + under(
    "albert.encoder.albert_layer_groups.0.albert_layers.0.",
    """attention.query.weight attention.value.bias attention.dense.weight attention.LayerNorm.bias
    ffn.weight ffn_output.bias full_layer_layer_norm.weight""",
)
FAMILIES["albert"] = Family(
    "Albert",
    TINY_SIZES
    | {
        "vocab_size": vocabularies.PIECES,
        "embedding_size": 16,
        "max_position_embeddings": POSITIONS,
    },
    BERT_TOKENS,
    vocabularies.write_albert,
    {
        "encoder": Case(internals=True),
        "encoder_groups": Case(
            {
                "num_hidden_layers": 4,
                "num_hidden_groups": 2,
                "inner_group_num": 2,
                "intermediate_size": 24,
            },
            make_inputs=rows(8, 5),
            internals=True,
        ),
        "encoder_relu": Case(RELU),
        "masked_lm": Case(
            gradients=ALBERT_GRADIENTS + under("predictions.", "dense.weight LayerNorm.weight bias")
        ),
        "masked_lm_v1": Case(
            {
                "hidden_act": "gelu",
                "hidden_dropout_prob": 0.1,
                "attention_probs_dropout_prob": 0.1,
            }
        ),
        "pretraining": Case(),
        "classification": Case(
            SENTIMENT | RATES | {"classifier_dropout_prob": 0.3},
            (*ALBERT_GRADIENTS, "albert.pooler.weight", "classifier.weight"),
        ),
        "question_answering": Case(make_inputs=LONGEST),
        **heads({}),
        "bin_legacy": Case(
            save=released.save_albert,
            unused=("albert.pooler.weight", "albert.pooler.bias"),
            edit_config=released.albert_config,
        ),
    },
    capture_internals=quirks.run_albert,
)

# --- DistilBERT, MobileBERT, MPNet, ELECTRA ------------------------------------------------------

DISTILBERT_GRADIENTS = under(
    "distilbert.",
    """embeddings.word_embeddings.weight embeddings.position_embeddings.weight
    embeddings.LayerNorm.weight transformer.layer.0.attention.q_lin.weight
    transformer.layer.1.attention.v_lin.bias transformer.layer.1.ffn.lin2.bias""",
)
DISTILBERT_HEAD = ("vocab_transform.weight", "vocab_layer_norm.weight", "vocab_projector.bias")
OF_HUB = {"edit_config": released.distilbert_config}
FAMILIES["distilbert"] = Family(
    "DistilBert",
    {"dim": 32, "hidden_dim": 64, "n_heads": 4, "n_layers": 2} | OF_BERTS_WORDS,
    BERT_TOKENS,
    wordpiece(vocabularies.BERT, "DistilBertTokenizer"),
    {
        "encoder": Case(internals=True),
        "encoder_sinusoidal": Case({"n_layers": 1, "sinusoidal_pos_embds": True}),
        "masked_lm": Case(gradients=DISTILBERT_GRADIENTS + DISTILBERT_HEAD, **OF_HUB),
        "masked_lm_relu": Case({"n_layers": 1, "activation": "relu"}),
        "masked_lm_untied": Case(UNTIED | {"n_layers": 1}),
        "classification": Case(
            SINGLE_LABEL | labelled("NEGATIVE", "POSITIVE"),
            (
                *DISTILBERT_GRADIENTS,
                *("pre_classifier.weight", "classifier.weight", "classifier.bias"),
            ),
            **OF_HUB,
        ),
        "question_answering": Case(make_inputs=LONGEST, **OF_HUB),
        **heads({"n_layers": 1}),
    },
    has_segments=False,
)

# Without that of the tokens' table, of whose row for padding transformers leaves out what comes from neighbours.
MOBILEBERT_GRADIENTS = under(
    "mobilebert.",
    """embeddings.position_embeddings.weight embeddings.token_type_embeddings.weight
    embeddings.embedding_transformation.weight embeddings.LayerNorm.weight
    encoder.layer.0.bottleneck.input.dense.weight
    encoder.layer.0.bottleneck.attention.LayerNorm.weight
    encoder.layer.0.attention.self.key.weight encoder.layer.0.attention.self.value.weight
    encoder.layer.0.ffn.0.intermediate.dense.weight encoder.layer.0.ffn.0.output.LayerNorm.bias
    encoder.layer.0.output.dense.weight encoder.layer.0.output.bottleneck.dense.bias""",
)
MOBILEBERT_HEAD = under("cls.predictions.", "transform.dense.weight dense.weight bias")
FAMILIES["mobilebert"] = Family(
    "MobileBert",
    {
        **TINY_SIZES,
        **OF_BERTS_WORDS,
        "embedding_size": 12,
        "intra_bottleneck_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 1,
        "num_feedforward_networks": 2,
        "classifier_activation": False,
    },
    BERT_TOKENS,
    wordpiece(vocabularies.BERT, "MobileBertTokenizer"),
    {
        "encoder": Case(
            {"num_hidden_layers": 2, "num_feedforward_networks": 3},
            internals=True,
        ),
        "encoder_trained_padding": Case(
            edit_weights=quirks.calm_mobilebert, call=quirks.without_padding
        ),
        "encoder_tanh": Case(
            {
                "classifier_activation": True,
                "num_feedforward_networks": 1,
                "hidden_act": "gelu",
                "type_vocab_size": 3,
            }
        ),
        "masked_lm": Case(gradients=MOBILEBERT_GRADIENTS + MOBILEBERT_HEAD),
        "masked_lm_untied": Case(
            UNTIED,
            (
                "mobilebert.embeddings.word_embeddings.weight",
                *MOBILEBERT_GRADIENTS,
                *under("cls.predictions.decoder.", "weight bias"),
            ),
            make_inputs=rows(9, 9, 9),
        ),
        "pretraining": Case(edit_config=released.mobilebert_config),
        "classification": Case(
            SENTIMENT | RATES | {"classifier_dropout": 0.3},
            (*MOBILEBERT_GRADIENTS, "classifier.weight", "classifier.bias"),
        ),
        "question_answering": Case(make_inputs=LONGEST),
        **heads({}),
        "bin_legacy": Case(
            save=released.save_with_positions, edit_config=released.mobilebert_config
        ),
    },
    edit_weights=quirks.trained_by_transformers,
)

MPNET_LONGEST = 160  # beyond 128, from where on distances share a bucket
MPNET_GRADIENTS = under(
    "mpnet.",
    """embeddings.word_embeddings.weight embeddings.position_embeddings.weight
    embeddings.LayerNorm.weight encoder.relative_attention_bias.weight
    encoder.layer.0.attention.attn.q.weight encoder.layer.1.attention.attn.v.bias
    encoder.layer.1.output.dense.bias""",
)
FAMILIES["mpnet"] = Family(
    "MPNet",
    {
        **TINY_SIZES,
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": 2 + MPNET_LONGEST,
        "vocab_size": len(vocabularies.MPNET),
    },
    ROBERTA_TOKENS,
    wordpiece(vocabularies.MPNET, "MPNetTokenizer"),
    {
        "encoder": Case(make_inputs=quirks.padded_inputs, internals=True),
        "encoder_long": Case(
            ONE_LAYER, model_arguments=NO_POOLER, make_inputs=rows(MPNET_LONGEST, 140)
        ),
        "masked_lm": Case(gradients=MPNET_GRADIENTS + FAIRSEQ_HEAD),
        "masked_lm_relu": Case(ONE_LAYER | RELU),
        "classification": Case(ENTAILMENT, MPNET_GRADIENTS + TWO_DENSE),
        "question_answering": Case(),
        **heads(ONE_LAYER),
        "fairseq": Case(make=released.make_mpnet_fairseq),
    },
    has_segments=False,
)

ELECTRA_GRADIENTS = under(
    "electra.",
    """embeddings.word_embeddings.weight embeddings.token_type_embeddings.weight
    embeddings.LayerNorm.weight embeddings_project.weight
    encoder.layer.0.attention.self.query.weight encoder.layer.1.output.dense.bias""",
)
ELECTRA_HEAD = (
    *under("generator_predictions.", "dense.weight LayerNorm.weight"),
    "generator_lm_head.bias",
)
FAMILIES["electra"] = Family(
    "Electra",
    # As small: tables narrower than the layers.
    TINY_SIZES | OF_BERTS_WORDS | {"embedding_size": 16},
    BERT_TOKENS,
    wordpiece(vocabularies.BERT, "BertTokenizer"),
    {
        "encoder": Case(internals=True),
        "encoder_same_size": Case({"embedding_size": 32}),  # as base and large
        "discriminator": Case(edit_config=released.electra_config),
        "discriminator_relu": Case(ONE_LAYER | RELU),
        "masked_lm": Case(gradients=ELECTRA_GRADIENTS + ELECTRA_HEAD),
        "masked_lm_relu": Case(ONE_LAYER | RELU),
        "classification": Case(
            ENTAILMENT | {"classifier_dropout": 0.3},
            ELECTRA_GRADIENTS + TWO_DENSE,
        ),
        "classification_relu": Case(ONE_LAYER | RELU | NO_YES),
        "question_answering": Case(make_inputs=LONGEST),
        **heads(ONE_LAYER),
    },
)

# --- DeBERTa -------------------------------------------------------------------------------------

DEBERTA_TOKENS = Tokens(pad=0, first=1, last=2, first_ordinary=4)
RELATIVE = TINY_SIZES | {
    "relative_attention": True,
    "position_biased_input": False,
    "pos_att_type": ["p2c", "c2p"],
    "max_position_embeddings": POSITIONS,
}
DEBERTA_GRADIENTS = under(
    "deberta.",
    """embeddings.word_embeddings.weight embeddings.LayerNorm.weight
    encoder.rel_embeddings.weight encoder.layer.1.output.dense.bias""",
)
FIRST_GRADIENTS = under(
    "deberta.encoder.layer.",
    """0.attention.self.in_proj.weight 0.attention.self.v_bias 1.attention.self.pos_proj.weight
    1.attention.self.pos_q_proj.bias""",
)
SECOND_GRADIENTS = under(
    "deberta.encoder.",
    """LayerNorm.weight layer.0.attention.self.query_proj.weight
    layer.1.attention.self.key_proj.weight layer.1.attention.self.value_proj.bias""",
)
DEBERTA_HEAD = (
    "deberta.embeddings.position_embeddings.weight",
    *under("lm_predictions.lm_head.", "dense.weight bias"),
)
CONVOLUTION = {"conv_kernel_size": 3, "conv_act": "gelu"}
# transformers' own heads for masked tokens; `legacy` is its switch between them.
DIRECT = ONE_LAYER | {"legacy": False}


def deberta_heads(gradients: tuple[str, ...]) -> dict[str, Case]:
    return {
        "classification": Case(
            ENTAILMENT | {"cls_dropout": 0.3},
            (*DEBERTA_GRADIENTS, *gradients, "pooler.dense.weight", "classifier.bias"),
        ),
        "classification_tanh": Case(
            ONE_LAYER | NO_YES | {"pooler_hidden_act": "tanh", "pooler_dropout": 0.2}
        ),
        "question_answering": Case(ONE_LAYER, make_inputs=LONGEST),
        **heads(ONE_LAYER),
        "masked_lm": Case(
            gradients=DEBERTA_GRADIENTS + DEBERTA_HEAD, make=golden_deberta.make_masked_lm
        ),
    }


OF_DEBERTA = {
    "has_segments": False,
    "capture_internals": golden_deberta.run_padded,
    "captures_always": True,
    "edit_config": released.without_legacy,
}
FAMILIES["deberta"] = Family(
    "Deberta",
    RELATIVE | {"vocab_size": len(vocabularies.DEBERTA)},
    DEBERTA_TOKENS,
    vocabularies.write_deberta,
    {
        "encoder": Case(internals=True),
        "encoder_near": Case(
            ONE_LAYER | {"max_relative_positions": 12}, make_inputs=rows(POSITIONS, 29)
        ),
        **{n: c for n, c in deberta_heads(FIRST_GRADIENTS).items() if n != "multiple_choice"},
        "masked_lm_legacy": Case(ONE_LAYER | {"pos_att_type": ["c2p"]}, edit_config=dict),
        "masked_lm_direct": Case(
            DIRECT
            | {"relative_attention": False, "pos_att_type": None, "position_biased_input": True},
            edit_config=dict,
        ),
    },
    **OF_DEBERTA,
)
# Distances beyond 4 share rows, as those beyond 128 of the released ones.
BUCKETS = {"position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True}
FAMILIES["deberta_v2"] = Family(
    "DebertaV2",
    # Some rows more than pieces, as released.
    RELATIVE | BUCKETS | {"vocab_size": vocabularies.PIECES + 5},
    DEBERTA_TOKENS,
    vocabularies.write_deberta_v2,
    {
        "encoder": Case(make_inputs=rows(POSITIONS, 29), internals=True),
        "encoder_convolution": Case(CONVOLUTION),
        "encoder_plain": Case(
            ONE_LAYER | {"share_att_key": False, "norm_rel_ebd": "none", "position_buckets": -1}
        ),
        **deberta_heads(SECOND_GRADIENTS),
        "masked_lm_convolution": Case(CONVOLUTION, make=golden_deberta.make_masked_lm),
        "pretraining": Case(
            # The original's decoder of masks reads the last layer but one.
            {"num_hidden_layers": 4, "hidden_size": 16, "intermediate_size": 24},
            make=golden_deberta.make_pretraining,
            make_inputs=rows(16, 11, 6),
        ),
        "masked_lm_legacy": Case(
            ONE_LAYER | {"position_biased_input": True, "type_vocab_size": 2},
            make_inputs=golden_deberta.segmented_inputs,
            edit_config=dict,
        ),
        "masked_lm_direct": Case(DIRECT | {"pos_att_type": "p2c"}, edit_config=dict),
    },
    **OF_DEBERTA,
)

# --- XLM, XLNet ----------------------------------------------------------------------------------

XLM_GRADIENTS = under(
    "transformer.",
    """embeddings.weight position_embeddings.weight lang_embeddings.weight layer_norm_emb.weight
    attentions.0.q_lin.weight attentions.1.v_lin.bias ffns.1.lin2.bias""",
)
SMALL_XLM = {"n_layers": 1}
FAMILIES["xlm"] = Family(
    "XLM",
    {
        **{"emb_dim": 32, "n_heads": 4, "n_layers": 2, "n_langs": len(vocabularies.LANGUAGES)},
        "max_position_embeddings": POSITIONS,
        "vocab_size": len(vocabularies.XLM),
    },
    # <pad> is 2; both ends of a text are </s>, and <unk> and ten special tokens follow.
    Tokens(pad=2, first=1, last=1, first_ordinary=14),
    vocabularies.write_xlm,
    {
        "encoder": Case(internals=True),
        "encoder_no_languages": Case(SMALL_XLM | {"use_lang_emb": False}),
        "encoder_one_language": Case(SMALL_XLM | {"n_langs": 1}, make_inputs=batch_inputs),
        "encoder_unsaid": Case(SMALL_XLM, make_inputs=batch_inputs),
        "masked_lm": Case(
            gradients=(*XLM_GRADIENTS, "pred_layer.proj.bias"),
            edit_config=released.xlm_config,
            save=released.save_xlm,
        ),
        "masked_lm_translation": Case(SMALL_XLM, make_inputs=quirks.translation_inputs),
        "masked_lm_relu": Case(SMALL_XLM | {"gelu_activation": False}),
        "masked_lm_untied": Case(SMALL_XLM | UNTIED),
        "classification": Case(
            SINGLE_LABEL | labelled("no", "maybe", "yes"),
            XLM_GRADIENTS + under("sequence_summary.summary.", "weight bias"),
        ),
        "question_answering": Case(make_inputs=quirks.with_languages(LONGEST)),
        **heads(SMALL_XLM, choices=quirks.with_languages(choice_inputs)),
        "program": Case(make=released.make_xlm_program),
    },
    has_segments=False,
    make_inputs=quirks.with_languages(batch_inputs),
    edit_weights=quirks.scaled_norms,
)

XLNET_GRADIENTS = (
    "transformer.word_embedding.weight",
    *under("transformer.layer.1.rel_attn.", "q k v o r seg_embed layer_norm.bias"),
    *under("transformer.layer.1.rel_attn.", "r_w_bias r_r_bias r_s_bias"),
    *under("transformer.layer.0.ff.", "layer_1.weight layer_norm.weight"),
)
SMALL_XLNET = {"n_layer": 1}
FAMILIES["xlnet"] = Family(
    "XLNet",
    {
        **{"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "mem_len": None},
        "vocab_size": vocabularies.XLNET_PIECES,
    },
    golden_xlnet.TOKENS,
    vocabularies.write_xlnet,
    {
        "encoder": Case(internals=True),
        "encoder_no_segments": Case(
            SMALL_XLNET | {"clamp_len": 5, "ff_activation": "relu"},
            make_inputs=golden_xlnet.without_segments,
        ),
        "encoder_two_streams": Case(
            make_inputs=golden_xlnet.two_streams, run=golden_xlnet.run_two_streams
        ),
        "encoder_memory": Case(
            {"mem_len": 7, "reuse_len": 6, "n_layer": 2},
            make_inputs=golden_xlnet.segments,
            run=golden_xlnet.carry_memory,
        ),
        "encoder_both_directions": Case(
            {"mem_len": 7, "reuse_len": 6, "n_layer": 1},
            make_inputs=golden_xlnet.both_directions,
            run=golden_xlnet.carry_memory_both_ways,
        ),
        "masked_lm": Case(
            gradients=(*XLNET_GRADIENTS, "lm_loss.bias"), edit_config=released.xlnet_config
        ),
        "masked_lm_targets": Case(
            SMALL_XLNET, make_inputs=golden_xlnet.fill_in, call=golden_xlnet.with_streams
        ),
        "masked_lm_order": Case(
            gradients=(*XLNET_GRADIENTS, "transformer.mask_emb", "lm_loss.bias"),
            make_inputs=golden_xlnet.two_streams,
            make_labels=golden_xlnet.target_labels,
            call=golden_xlnet.with_streams,
        ),
        "classification": Case(
            SENTIMENT | {"summary_last_dropout": 0.2},
            (
                *XLNET_GRADIENTS,
                *("sequence_summary.summary.weight", "logits_proj.weight", "logits_proj.bias"),
            ),
        ),
        "question_answering": Case(),
        "beam_question_answering": Case(
            SMALL_XLNET, make_inputs=golden_xlnet.questions, run=golden_xlnet.beam
        ),
        "beam_question_answering_training": Case(
            SMALL_XLNET, make_inputs=golden_xlnet.answered_questions, run=golden_xlnet.given_starts
        ),
        **heads(SMALL_XLNET, choices=golden_xlnet.choice_inputs),
    },
    make_inputs=golden_xlnet.left_padded,
)

# --- ModernBERT ----------------------------------------------------------------------------------

# Padding that windows still reach from a token: what stands further off sees nothing, and attention to
# nothing has no meaning.
LONG_ROWS, ODD_ROWS = rows(POSITIONS, POSITIONS - 3, POSITIONS - 4), rows(27, 23)
PAD, CLS, SEP = map(vocabularies.MODERNBERT.index, ("[PAD]", "[CLS]", "[SEP]"))
MODERNBERT_GRADIENTS = under(
    "",
    """model.embeddings.tok_embeddings.weight model.embeddings.norm.weight
    model.layers.0.attn.Wqkv.weight model.layers.1.attn_norm.weight model.layers.1.attn.Wqkv.weight
    model.layers.2.attn.Wo.weight model.layers.2.mlp.Wi.weight model.layers.3.mlp.Wo.weight
    model.final_norm.weight head.dense.weight head.norm.weight""",
)
OTHER_ROPES = {
    "full_attention": {"rope_type": "default", "rope_theta": 500.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
}
ALL_BIASES = dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"), True) | {
    "decoder_bias": False
}
LAST_IS_GLOBAL = {"layer_types": ["sliding_attention", "full_attention"]}
FAMILIES["modernbert"] = Family(
    "ModernBert",
    {
        **{"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 24},
        **{"num_hidden_layers": 4, "global_attn_every_n_layers": 3, "local_attention": 8},
        "max_position_embeddings": POSITIONS,
        "vocab_size": len(vocabularies.MODERNBERT),
        **{"pad_token_id": PAD, "cls_token_id": CLS, "bos_token_id": CLS},
        **{"sep_token_id": SEP, "eos_token_id": SEP},
    },
    Tokens(PAD, CLS, SEP, first_ordinary=len(vocabularies.MODERNBERT_SPECIAL)),
    vocabularies.write_modernbert,
    {
        "encoder": Case(make_inputs=LONG_ROWS, internals=True, edit_weights=quirks.calm_modernbert),
        "encoder_short": Case(make_inputs=rows(11, 10, 8), edit_config=released.modernbert_config),
        "masked_lm": Case(
            gradients=(*MODERNBERT_GRADIENTS, "decoder.bias"),
            make_inputs=ODD_ROWS,
            edit_weights=quirks.calm_modernbert,
            edit_config=released.modernbert_config,
        ),
        "masked_lm_untied": Case(
            TWO_LAYERS | UNTIED | {"hidden_activation": "relu", "rope_parameters": OTHER_ROPES},
            make_inputs=ODD_ROWS,
            edit_weights=quirks.calm_modernbert,
        ),
        "classification": Case(
            SENTIMENT | {"classifier_pooling": "mean"},
            (*MODERNBERT_GRADIENTS, "classifier.weight", "classifier.bias"),
            edit_config=released.modernbert_config,
        ),
        "classification_cls": Case(TWO_LAYERS | SENTIMENT | {"classifier_pooling": "cls"}),
        "masked_lm_biases": Case(
            TWO_LAYERS | ALL_BIASES | LAST_IS_GLOBAL,
            make_inputs=ODD_ROWS,
            edit_weights=quirks.calm_modernbert,
        ),
        "classification_biases": Case(
            TWO_LAYERS | SENTIMENT | ALL_BIASES | {"classifier_activation": "quick_gelu"}
        ),
        "question_answering": Case(
            TWO_LAYERS | {"max_position_embeddings": 3 * POSITIONS}, make_inputs=LONG_ROWS
        ),
        "regression": Case(TWO_LAYERS | REGRESSION),
        "token_classification": Case(TWO_LAYERS | TAGS, make_inputs=ODD_ROWS),
        "multiple_choice": Case(
            TWO_LAYERS | {"classifier_pooling": "mean"}, make_inputs=choice_inputs
        ),
    },
    has_segments=False,
)

# --- Longformer ----------------------------------------------------------------------------------

# Without global tokens, rows have padding that windows still reach from a token, as of ModernBERT: there,
# transformers' gradients of what stands further off are NaN.
WIDE = {"attention_window": 32}
FAMILIES["longformer"] = Family(
    "Longformer",
    AFTER_PADDING | {"vocab_size": len(vocabularies.ROBERTA), "attention_window": 8},
    ROBERTA_TOKENS,
    vocabularies.write_roberta,
    {
        "encoder": Case(
            make_inputs=longformer.with_global_tokens(POSITIONS, POSITIONS - 3, 29, 22),
            internals=True,
        ),
        "encoder_local": Case(
            {"attention_window": [12, 6]},
            model_arguments=NO_POOLER,
            make_inputs=rows(POSITIONS - 2, POSITIONS - 7, 9),
        ),
        "encoder_short": Case(
            WIDE,
            make_inputs=longformer.with_global_tokens(11, 9, 6),
            edit_config=released.longformer_config,
        ),
        "masked_lm": Case(
            gradients=longformer.LOCAL_GRADIENTS + FAIRSEQ_HEAD, make_inputs=rows(23, 22, 20)
        ),
        "classification": Case(
            ENTAILMENT, longformer.GRADIENTS + TWO_DENSE, make_inputs=rows(27, 19, 6)
        ),
        "question_answering": Case(make_inputs=longformer.pairs(POSITIONS, 31, 15)),
        **heads(ONE_LAYER, choices=longformer.pairs(21, 9, 16, 7, 12, 14, choices=3)),
        "original": Case(make=longformer.make_original),
    },
    has_segments=False,
    capture_internals=longformer.run_with_internals,
)

# --- BigBird -------------------------------------------------------------------------------------

# Blocks of 4 tokens, each of which sees one at random: rows of up to 28 see everything.
SPARSE_ROWS, SHORT_ROWS = rows(POSITIONS, POSITIONS - 3, 30), rows(28, 19, 3)
BIGBIRD_PAD, _, _, _, BIGBIRD_CLS, BIGBIRD_SEP, _ = range(len(vocabularies.BIGBIRD_SPECIAL))
BIGBIRD_GRADIENTS = under(
    "bert.",
    """embeddings.word_embeddings.weight embeddings.position_embeddings.weight
    embeddings.LayerNorm.weight encoder.layer.0.attention.self.query.weight
    encoder.layer.0.attention.self.key.weight encoder.layer.0.attention.self.value.weight
    encoder.layer.1.attention.self.value.bias encoder.layer.1.attention.output.LayerNorm.bias
    encoder.layer.1.output.dense.bias""",
)
TRAINED = {"call": golden_bigbird.trained, "make_inputs": SPARSE_ROWS}
FAMILIES["bigbird"] = Family(
    "BigBird",
    TINY_SIZES
    | {"max_position_embeddings": POSITIONS, "vocab_size": vocabularies.BIGBIRD_PIECES}
    | {"block_size": 4, "num_random_blocks": 1, "sep_token_id": BIGBIRD_SEP},
    Tokens(BIGBIRD_PAD, BIGBIRD_CLS, BIGBIRD_SEP, first_ordinary=len(vocabularies.BIGBIRD_SPECIAL)),
    vocabularies.write_bigbird,
    {
        "encoder": Case(internals=True, make_inputs=SPARSE_ROWS),
        "encoder_odd_length": Case(
            call=golden_bigbird.trained, make_inputs=rows(POSITIONS - 2, 30)
        ),
        "encoder_many_blocks": Case({"block_size": 2, "num_random_blocks": 3}, **TRAINED),
        "encoder_no_biases": Case({"use_bias": False, "rescale_embeddings": True}, **TRAINED),
        "encoder_evaluation": Case(
            make_inputs=SPARSE_ROWS, edit_config=golden_bigbird.with_block_0
        ),
        "encoder_full": Case({"attention_type": "original_full"}, make_inputs=SPARSE_ROWS),
        "encoder_short": Case(RATES, make_inputs=SHORT_ROWS),
        "masked_lm": Case(gradients=BIGBIRD_GRADIENTS + BERT_HEAD, **TRAINED),
        "masked_lm_untied": Case(ONE_LAYER | UNTIED, make_inputs=SHORT_ROWS),
        "pretraining": Case(ONE_LAYER, **TRAINED),
        "classification": Case(SENTIMENT, BIGBIRD_GRADIENTS + TWO_DENSE, **TRAINED),
        "question_answering": Case(ONE_LAYER, run=golden_bigbird.answers, make_inputs=SPARSE_ROWS),
        **heads(ONE_LAYER),
    },
    capture_internals=golden_bigbird.internals,
)

# --- GPT -----------------------------------------------------------------------------------------

# Rows are padded with a token that no row has besides, by which transformers finds their last one.
GPT_TOKENS = Tokens(pad=0, first=3, last=4, first_ordinary=5)
GPT_SIZES = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": POSITIONS}
SMALL_GPT, PADDED = {"n_layer": 1}, {"pad_token_id": 0}


def gpt_cases(tables: str, untied: dict, of_hub: str) -> dict[str, Case]:
    """The cases that both families have, by the names of their tables."""
    gradients = under(
        "transformer.",
        f"""{tables} h.0.ln_1.weight h.0.ln_2.bias h.0.attn.c_attn.weight h.0.attn.c_attn.bias
        h.1.attn.c_proj.weight h.1.mlp.c_fc.weight h.1.mlp.c_proj.bias""",
    )
    return {
        "encoder": Case(internals=True),
        "causal_lm": Case(
            gradients=gradients,
            make=quirks.make_language_model,
            edit_config=functools.partial(released.gpt_config, more=of_hub),
        ),
        "causal_lm_untied": Case(
            SMALL_GPT | UNTIED | untied,
            make=quirks.make_language_model,
            make_inputs=rows(POSITIONS, POSITIONS),
        ),
        "classification": Case(
            PADDED | SINGLE_LABEL | labelled("a", "b", "c"), (*gradients, "score.weight")
        ),
        "multi_label_classification": Case(
            PADDED
            | SMALL_GPT
            | {"problem_type": "multi_label_classification"}
            | labelled("x", "y", "z")
        ),
        "regression": Case(PADDED | SMALL_GPT | REGRESSION),
    }


FAMILIES["gpt"] = Family(
    "OpenAIGPT",
    GPT_SIZES | {"vocab_size": len(vocabularies.GPT)},
    GPT_TOKENS,
    vocabularies.write_gpt,
    gpt_cases("tokens_embed.weight positions_embed.weight", {"afn": "relu"}, "afn"),
    has_segments=False,
)
END = len(vocabularies.GPT2) - 1
FAMILIES["gpt2"] = Family(
    "GPT2",
    GPT_SIZES | {"vocab_size": END + 1, "bos_token_id": END, "eos_token_id": END},
    GPT_TOKENS,
    vocabularies.write_gpt2,
    {
        **gpt_cases(
            "wte.weight wpe.weight",
            {"activation_function": "relu", "n_inner": 48},
            "activation_function bos_token_id eos_token_id",
        ),
        "encoder_scales": Case(
            {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True}
            | {"activation_function": "gelu_10", "n_embd": 16}
        ),
        "token_classification": Case(SMALL_GPT | TAGS),
        "question_answering": Case(SMALL_GPT),
    },
    has_segments=False,
)

# --- T5 ------------------------------------------------------------------------------------------

T5_TOKENS = Tokens(pad=0, first=3, last=1, first_ordinary=3)
T5_SIZES = {"d_model": 32, "d_kv": 6, "d_ff": 48, "num_layers": 2, "num_heads": 4}
T5_GRADIENTS = under(
    "",
    """shared.weight encoder.block.0.layer.0.SelfAttention.q.weight
    encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight
    encoder.block.1.layer.0.layer_norm.weight encoder.block.1.layer.1.DenseReluDense.wi.weight
    encoder.final_layer_norm.weight decoder.block.0.layer.0.SelfAttention.k.weight
    decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight
    decoder.block.1.layer.1.EncDecAttention.q.weight decoder.block.1.layer.1.EncDecAttention.v.weight
    decoder.block.1.layer.1.layer_norm.weight decoder.block.1.layer.2.DenseReluDense.wo.weight
    decoder.final_layer_norm.weight""",
)
UMT5_GRADIENTS = (
    *("shared.weight", "lm_head.weight"),
    *(
        f"{stack}.block.{block}.layer.0.SelfAttention.relative_attention_bias.weight"
        for stack in ("encoder", "decoder")
        for block in range(2)
    ),
)
SMALL_T5 = {"num_layers": 1, "d_model": 16, "d_ff": 24, "decoder_start_token_id": 0}
T5_CLASSIFIER_GRADIENTS = (
    *under("transformer.encoder.block.0.layer.0.", "SelfAttention.q.weight layer_norm.weight"),
    *under(
        "transformer.decoder.block.0.layer.", "0.SelfAttention.k.weight 1.EncDecAttention.v.weight"
    ),
    *under("transformer.", "shared.weight decoder.final_layer_norm.weight"),
    *under("classification_head.", "dense.weight out_proj.bias"),
)
T5_GATE = "decoder.block.0.layer.2.DenseReluDense.wi_1.weight"
ONE_T5_LAYER = {"num_layers": 1}
SHORT_DECODER = {"num_decoder_layers": 1, "feed_forward_proj": "gated-gelu"}
TO_TEXT = {"call": t5.call, "make_labels": t5.target_labels}
FAMILIES["t5"] = Family(
    "T5",
    T5_SIZES | {"vocab_size": vocabularies.PIECES + t5.SENTINELS + 3},
    T5_TOKENS,
    t5.write_t5,
    {
        "encoder": Case(make_inputs=rows(POSITIONS, 23), internals=True),
        "encoder_buckets": Case(
            {"relative_attention_num_buckets": 10, "relative_attention_max_distance": 20}
            | {"feed_forward_proj": "gated-silu", "num_layers": 1},
            make_inputs=LONGEST,
        ),
        "text_to_text": Case(
            gradients=T5_GRADIENTS, make_inputs=t5.with_targets(t5.texts), **TO_TEXT
        ),
        "text_to_text_gated": Case(
            SHORT_DECODER | {"tie_word_embeddings": False},
            gradients=(*T5_GRADIENTS[:3], T5_GRADIENTS[5], "lm_head.weight", T5_GATE),
            make_inputs=t5.with_targets(t5.sources),
            edit_weights=t5.calm_and_untied,
            edit_config=t5.released_config,
            **TO_TEXT,
        ),
        "classification": Case(
            SMALL_T5 | SENTIMENT | {"classifier_dropout": 0.2}, gradients=T5_CLASSIFIER_GRADIENTS
        ),
        "regression": Case(SMALL_T5 | REGRESSION),
        "token_classification": Case(SMALL_T5 | TAGS),
        "question_answering": Case(SMALL_T5),
    },
    has_segments=False,
    edit_weights=t5.calm,
)
FAMILIES["mt5"] = Family(
    "MT5",
    T5_SIZES | {"vocab_size": vocabularies.PIECES + t5.SENTINELS},
    T5_TOKENS,
    t5.write_t5,
    {
        "encoder": Case(ONE_T5_LAYER),
        "text_to_text": Case(
            make_inputs=t5.with_targets(t5.sources),
            edit_weights=t5.calm_and_untied,
            edit_config=t5.released_mt5_config,
            **TO_TEXT,
        ),
        "classification": Case(SMALL_T5 | NO_YES, edit_config=t5.released_mt5_config),
    },
    has_segments=False,
    edit_weights=t5.calm,
)
FAMILIES["umt5"] = Family(
    "UMT5",
    T5_SIZES | {"d_model": 16, "d_ff": 24} | {"vocab_size": vocabularies.PIECES + t5.SENTINELS},
    T5_TOKENS,
    t5.write_t5,
    {
        "encoder": Case(internals=True),
        "text_to_text": Case(
            SHORT_DECODER | {"num_decoder_layers": 2, "tie_word_embeddings": False},
            gradients=UMT5_GRADIENTS,
            make_inputs=t5.with_targets(t5.sources),
            edit_weights=t5.calm_and_untied,
            edit_config=t5.released_umt5_config,
            **TO_TEXT,
        ),
        "classification": Case(SMALL_T5 | NO_YES),
        "token_classification": Case(SMALL_T5 | TAGS),
    },
    has_segments=False,
    edit_weights=t5.calm,
)
FAMILIES["byt5"] = Family(
    "T5",
    T5_SIZES | SHORT_DECODER | {"vocab_size": 384, "tie_word_embeddings": False},
    T5_TOKENS,
    t5.write_byt5,
    {
        "encoder": Case(ONE_T5_LAYER, make_inputs=t5.texts),
        "text_to_text": Case(
            make_inputs=t5.with_targets(t5.texts),
            edit_weights=t5.calm_and_untied,
            edit_config=t5.released_config,
            **TO_TEXT,
        ),
    },
    has_segments=False,
    edit_weights=t5.calm,
    edit_config=released.names_tokenizer("ByT5Tokenizer"),
)

FAMILIES["spanbert"] = golden_spanbert.SPANBERT
