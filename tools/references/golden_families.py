"""The golden cases of families: how each is made, in a table that `make_golden.py` goes through.

A new family is an entry of FAMILIES. ModernBERT's stands here as an example, with what a family may need besides:
its own attention, weights and config.json. Entries of families whose files are made are in the repository's history
(tests/golden/README.md).
"""

import functools

import golden_vocabularies as vocabularies
import numpy as np
import torch
from golden_case import (
    POSITIONS,
    Case,
    Family,
    Tokens,
    batch_inputs,
    choice_inputs,
    labelled,
    random_inputs,
    save_apart,
    save_current,
)
from safetensors.torch import save_file
from transformers import BertTokenizer
from transformers.models.modernbert import modeling_modernbert
from transformers.models.ultrabert import modeling_ultrabert


def rows(*lengths: int):
    """Inputs of these lengths."""
    return functools.partial(random_inputs, lengths=lengths)


def under(root: str, names: str) -> tuple[str, ...]:
    """Names of parameters below a root."""
    return tuple(f"{root}{name}" for name in names.split())


REGRESSION = {"num_labels": 1, "problem_type": "regression"}
TAGS = labelled("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
SENTIMENT = {
    "problem_type": "single_label_classification",
    **labelled("negative", "neutral", "positive"),
}
UNTIED = {"tie_word_embeddings": False}
TWO_LAYERS = {"num_hidden_layers": 2}  # enough for a head or a quirk of files

FAMILIES: dict[str, Family] = {}

# --- ModernBERT ----------------------------------------------------------------------------------


def attend(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    """transformers' eager attention in float64 throughout.

    Its softmax is one in float32 always, where float64's least number, which hides keys, is minus
    infinity: rows that see nothing are not a number then, which they are not in a float32 model.
    """
    scores = query @ key.transpose(2, 3) * scaling
    probabilities = torch.softmax(scores if attention_mask is None else scores + attention_mask, -1)
    return (probabilities @ value).transpose(1, 2).contiguous(), probabilities


modeling_modernbert.eager_attention_forward = attend


def calm(model) -> None:
    """Smaller weights in the blocks, whose sums no norm bounds on their way up."""
    for layer in model.base_model.layers.parameters():
        layer.data *= 0.5 if layer.ndim == 2 else 1.0


def released_config(config: dict) -> dict:
    """The keys of the released config.json, which transformers 4.47 wrote."""
    ropes = config.pop("rope_parameters")
    del config["layer_types"]
    return config | {
        "global_rope_theta": ropes["full_attention"]["rope_theta"],
        "local_rope_theta": ropes["sliding_attention"]["rope_theta"],
        "gradient_checkpointing": False,
        "layer_norm_eps": 1e-05,
        "position_embedding_type": "absolute",
    }


# Padding that windows still reach from a token: what stands further off sees nothing, and attention to
# nothing has no meaning.
LONG_ROWS, ODD_ROWS = rows(POSITIONS, POSITIONS - 3, POSITIONS - 4), rows(27, 23)
PAD, CLS, SEP = map(vocabularies.MODERNBERT.index, ("[PAD]", "[CLS]", "[SEP]"))
GRADIENTS = under(
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
        "encoder": Case(make_inputs=LONG_ROWS, internals=True, edit_weights=calm),
        "encoder_short": Case(make_inputs=rows(11, 10, 8), edit_config=released_config),
        "masked_lm": Case(
            gradients=(*GRADIENTS, "decoder.bias"),
            make_inputs=ODD_ROWS,
            edit_weights=calm,
            edit_config=released_config,
        ),
        "masked_lm_untied": Case(
            TWO_LAYERS | UNTIED | {"hidden_activation": "relu", "rope_parameters": OTHER_ROPES},
            make_inputs=ODD_ROWS,
            edit_weights=calm,
        ),
        "classification": Case(
            SENTIMENT | {"classifier_pooling": "mean"},
            (*GRADIENTS, "classifier.weight", "classifier.bias"),
            edit_config=released_config,
        ),
        "classification_cls": Case(TWO_LAYERS | SENTIMENT | {"classifier_pooling": "cls"}),
        "masked_lm_biases": Case(
            TWO_LAYERS | ALL_BIASES | LAST_IS_GLOBAL, make_inputs=ODD_ROWS, edit_weights=calm
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

# --- ERNIE ---------------------------------------------------------------------------------------


def with_task_types(make_inputs):
    """Inputs with a task type for each token."""

    def make(family, config, rng):
        inputs = make_inputs(family, config, rng)
        shape = inputs["token_ids"].shape
        ids = rng.integers(0, config.task_type_vocab_size, shape).astype(np.int32)
        return inputs | {"task_type_ids": ids}

    return make


def chinese_inputs(family, config, rng):
    """Pairs of texts and the ids that transformers' tokenizer gives for them."""
    ids = {token: index for index, token in enumerate(vocabularies.ERNIE)}
    tokenizer = BertTokenizer(vocab=ids, do_lower_case=True)
    firsts = ["今天天气很好。", "我喜欢看Film 12", "不好？Good\u3000天气"]
    seconds = ["这部电影不好，不看", "我看The book。", "喜欢"]
    encoded = tokenizer(firsts, seconds, padding="longest", return_tensors="np")
    return {
        "texts": np.array(firsts),
        "text_pairs": np.array(seconds),
        "token_ids": encoded["input_ids"].astype(np.int32),
        "segment_ids": encoded["token_type_ids"].astype(np.int32),
        "padding_mask": encoded["attention_mask"].astype(np.int32),
    }


WITH_TASKS = with_task_types(batch_inputs)
TABLES = """embeddings.word_embeddings.weight embeddings.position_embeddings.weight
    embeddings.token_type_embeddings.weight embeddings.task_type_embeddings.weight
    embeddings.LayerNorm.weight encoder.layer.0.attention.self.query.weight
    encoder.layer.1.output.dense.bias"""
FAMILIES["ernie"] = Family(
    "Ernie",
    {
        **{"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 24},
        **{"num_hidden_layers": 2, "type_vocab_size": 4, "layer_norm_eps": 1e-5},
        **{"vocab_size": len(vocabularies.ERNIE), "max_position_embeddings": POSITIONS},
        "use_task_id": True,
    },
    Tokens(pad=0, first=2, last=3, first_ordinary=5),
    vocabularies.wordpiece(vocabularies.ERNIE, "BertTokenizer"),
    {
        "encoder": Case(make_inputs=WITH_TASKS, internals=True),
        "encoder_unsaid": Case(),
        "encoder_no_tasks": Case({"use_task_id": False}),
        # nano's heads, 26 wide.
        "encoder_narrow": Case(
            {
                **{"hidden_size": 52, "num_attention_heads": 2, "num_hidden_layers": 1},
                "task_type_vocab_size": 16,
            },
            make_inputs=WITH_TASKS,
        ),
        "masked_lm": Case(
            gradients=under("ernie.", TABLES)
            + under("cls.predictions.", "transform.dense.weight bias"),
            make_inputs=WITH_TASKS,
        ),
        "masked_lm_relu": Case({"hidden_act": "relu", "use_task_id": False}),
        "masked_lm_untied": Case(UNTIED),
        "pretraining": Case(make_inputs=WITH_TASKS),
        "next_sentence_prediction": Case(make_inputs=WITH_TASKS),
        "classification": Case(
            SENTIMENT,
            (
                *under("ernie.", f"{TABLES} pooler.dense.weight"),
                *("classifier.weight", "classifier.bias"),
            ),
            make_inputs=chinese_inputs,
        ),
        "regression": Case(REGRESSION | {"hidden_act": "gelu_new"}, make_inputs=WITH_TASKS),
        "token_classification": Case(TAGS, make_inputs=WITH_TASKS),
        "question_answering": Case({"use_task_id": False, "type_vocab_size": 2}),
        # transformers does not make rows of the choices' task types.
        "multiple_choice": Case(make_inputs=choice_inputs),
    },
)

# --- Jina Embeddings v3 --------------------------------------------------------------------------

# <s>, <pad>, </s> and <unk>, the other pieces, and <mask>.
XLM_ROBERTA_SIZE = 4 + vocabularies.PIECES - 3 + 1
JINA_GRADIENTS = under(
    "roberta.",
    """embeddings.token_type_embeddings.weight embeddings.LayerNorm.weight
    layers.0.self_attn.q_proj.weight layers.0.self_attn.k_proj.bias
    layers.0.self_attn.o_proj.weight layers.1.post_attention_layernorm.weight layers.1.mlp.fc1.weight
    layers.1.mlp.fc2.weight layers.1.post_mlp_layernorm.bias""",
)
FAMILIES["jina_v3"] = Family(
    "JinaEmbeddingsV3",
    {
        **{"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64},
        **{"num_hidden_layers": 2, "vocab_size": XLM_ROBERTA_SIZE},
        "max_position_embeddings": POSITIONS,
    },
    Tokens(pad=1, first=0, last=2, first_ordinary=4),
    vocabularies.write_xlm_roberta,
    {
        "encoder": Case(internals=True),
        "encoder_odd": Case(
            {
                **{"hidden_act": "relu", "layer_norm_eps": 1e-3, "type_vocab_size": 3},
                "rope_parameters": {"rope_type": "linear", "rope_theta": 50.0, "factor": 1.5},
            }
        ),
        "masked_lm": Case(gradients=(*JINA_GRADIENTS, "lm_head.dense.weight", "lm_head.bias")),
        "masked_lm_untied": Case(UNTIED),
        "classification": Case(
            SENTIMENT,
            (
                "roberta.embeddings.word_embeddings.weight",
                *JINA_GRADIENTS,
                "classifier.dense.weight",
                "classifier.out_proj.weight",
            ),
        ),
        "regression": Case(REGRESSION),
        "token_classification": Case(TAGS),
        "question_answering": Case(),
    },
    has_segments=False,
    save=save_apart,
)

# --- ESM-2 ---------------------------------------------------------------------------------------

LETTERS = vocabularies.PROTEINS
MASK = LETTERS.index("<mask>")


def proteins(family, config, rng, masked: float = 0.2):
    """Proteins of which some residues are masked, in one row all of them."""
    inputs = random_inputs(family, config, rng, lengths=(16, 11, 6, 3))
    inside = (inputs["padding_mask"] == 1) & (inputs["token_ids"] >= family.tokens.first_ordinary)
    rates = np.array([0, masked, 1, 0])[:, None]
    inputs["token_ids"][inside & (rng.random(inside.shape) < rates)] = MASK
    return inputs


def contacts(model, inputs) -> dict:
    """The map of each protein, as transformers computes it for the batch."""
    with torch.no_grad():
        found = model.predict_contacts(inputs["input_ids"], inputs["attention_mask"])
    return {"contacts": found.numpy().astype(np.float32)}


def half_frequencies(model) -> None:
    rotary = model.base_model.rotary_embeddings
    rotary.inv_freq = rotary.inv_freq.half().float()


def frequencies_in_layers(model, directory) -> None:
    """As files of before 2026: the frequencies in each layer, here in half precision."""
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    tensors = {name: tensor for name, tensor in tensors.items() if "lm_head.decoder" not in name}
    (name,) = (name for name in tensors if name.endswith("inv_freq"))
    stored, root = tensors.pop(name).half(), name.removesuffix("rotary_embeddings.inv_freq")
    for i in range(model.config.num_hidden_layers):
        layer = f"{root}encoder.layer.{i}.attention.self.rotary_embeddings.inv_freq"
        tensors[layer] = stored.clone()
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})


def released_esm(config: dict) -> dict:
    """Keys of the released config.json, which nothing reads or which have one value here."""
    return config | {
        "classifier_dropout": None,
        "emb_layer_norm_before": False,
        "esmfold_config": None,
        "hidden_act": "gelu",
        "is_folding_model": False,
        "use_cache": True,
        "vocab_list": None,
    }


BLOCK = "encoder.layer.1."
ESM_GRADIENTS = under(
    "esm.",
    f"""embeddings.word_embeddings.weight encoder.layer.0.attention.self.query.weight
    {BLOCK}attention.self.key.bias {BLOCK}attention.LayerNorm.weight {BLOCK}LayerNorm.bias
    {BLOCK}output.dense.weight encoder.emb_layer_norm_after.weight""",
)
FAMILIES["esm2"] = Family(
    "Esm",
    {
        **{"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2},
        **{"intermediate_size": 48, "max_position_embeddings": POSITIONS},
        **{"position_embedding_type": "rotary", "token_dropout": True, "layer_norm_eps": 1e-5},
        **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        **{"vocab_size": len(LETTERS), "pad_token_id": 1, "mask_token_id": MASK},
    },
    Tokens(pad=1, first=0, last=2, first_ordinary=4),
    vocabularies.write_proteins,
    {
        "encoder": Case(internals=True, beside=contacts, edit_config=released_esm),
        "encoder_no_dropout": Case({"token_dropout": False, "rope_theta": 50.0}),
        "encoder_half": Case(
            model_arguments={"add_pooling_layer": False},
            edit_weights=half_frequencies,
            save=frequencies_in_layers,
            edit_config=released_esm,
        ),
        "masked_lm": Case(
            gradients=(*ESM_GRADIENTS, *under("lm_head.", "dense.weight layer_norm.bias bias")),
            edit_config=released_esm,
        ),
        "masked_lm_untied": Case(UNTIED),
        "classification": Case(
            SENTIMENT,
            (*ESM_GRADIENTS, *under("classifier.", "dense.weight out_proj.weight out_proj.bias")),
        ),
        "regression": Case(REGRESSION),
        "token_classification": Case(TAGS),
    },
    has_segments=False,
    make_inputs=proteins,
)

# --- NomicBERT -----------------------------------------------------------------------------------

BERT_TOKENS = Tokens(*map(vocabularies.BERT.index, ("[PAD]", "[CLS]", "[SEP]")), first_ordinary=5)
NOMIC_GRADIENTS = under(
    "nomic_bert.",
    """embeddings.word_embeddings.weight embeddings.token_type_embeddings.weight
    embeddings.LayerNorm.weight embeddings.LayerNorm.bias layers.0.self_attn.q_proj.weight
    layers.1.self_attn.v_proj.weight layers.0.self_attn.o_proj.weight layers.1.mlp.gate_proj.weight
    layers.0.mlp.up_proj.weight layers.1.mlp.down_proj.weight
    layers.0.post_attention_layernorm.weight layers.1.post_mlp_layernorm.bias""",
)
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 300.0, "factor": 1.7}
FAMILIES["nomic_bert"] = Family(
    "NomicBert",
    {
        **{"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48},
        **TWO_LAYERS,
        "max_position_embeddings": POSITIONS,
        # As released: more rows than the vocabulary has words.
        "vocab_size": len(vocabularies.BERT) + 3,
    },
    BERT_TOKENS,
    vocabularies.wordpiece(vocabularies.BERT, "BertTokenizer"),
    {
        "encoder": Case(internals=True, save=save_current),
        "encoder_pooler": Case(model_arguments={"add_pooling_layer": True}),
        "encoder_linear": Case(
            {"head_dim": 12, "rope_parameters": LINEAR_ROPE, "layer_norm_eps": 1e-3},
            make_inputs=rows(POSITIONS, POSITIONS - 7),
        ),
        "masked_lm": Case(
            gradients=(
                *NOMIC_GRADIENTS,
                *under("cls.predictions.", "bias transform.dense.weight transform.layer_norm.bias"),
            )
        ),
        "masked_lm_untied": Case(UNTIED | {"hidden_act": "gelu", "type_vocab_size": 1}),
        "classification": Case(
            SENTIMENT,
            (*NOMIC_GRADIENTS, "nomic_bert.pooler.dense.weight", "classifier.weight"),
        ),
        "regression": Case(REGRESSION),
        "token_classification": Case(TAGS),
    },
    save=save_apart,
)

# --- GTE -----------------------------------------------------------------------------------------

GTE_GRADIENTS = under(
    "gte.",
    """embeddings.word_embeddings.weight embeddings.LayerNorm.weight layers.0.self_attn.q_proj.bias
    layers.1.self_attn.v_proj.weight layers.0.self_attn.o_proj.bias layers.1.mlp.gate_proj.weight
    layers.0.mlp.up_proj.weight layers.1.mlp.down_proj.bias
    layers.0.post_attention_layernorm.weight layers.1.post_mlp_layernorm.bias""",
)


def without_segments(*lengths: int):
    """Inputs of a model without a table of segments."""

    def make(family, config, rng):
        inputs = random_inputs(family, config, rng, lengths)
        del inputs["segment_ids"]
        return inputs

    return make


GTE_SIZES = {
    **{"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48},
    **TWO_LAYERS,
    "max_position_embeddings": POSITIONS,
}
FAMILIES["gte"] = Family(
    "Gte",
    {
        **GTE_SIZES,
        **{"vocab_size": len(vocabularies.BERT) + 3, "pad_token_id": 0, "type_vocab_size": 2},
    },
    BERT_TOKENS,
    vocabularies.wordpiece(vocabularies.BERT, "BertTokenizer"),
    {
        "encoder": Case({"rope_parameters": LINEAR_ROPE}, internals=True, save=save_current),
        "encoder_pooler": Case(model_arguments={"add_pooling_layer": True}),
        "encoder_no_segments": Case(
            {"type_vocab_size": 0, "rope_parameters": LINEAR_ROPE, "layer_norm_eps": 1e-3},
            make_inputs=without_segments(POSITIONS, POSITIONS - 7),
        ),
        "masked_lm": Case(
            gradients=(
                *GTE_GRADIENTS,
                *under("lm_head.", "decoder.bias dense.weight layer_norm.bias"),
            )
        ),
        "masked_lm_untied": Case(UNTIED | {"hidden_act": "relu"}, save=save_current),
        "classification": Case(
            SENTIMENT, (*GTE_GRADIENTS, "gte.pooler.dense.weight", "classifier.weight")
        ),
        "regression": Case(REGRESSION),
        "token_classification": Case(TAGS),
    },
    save=save_apart,
)
FAMILIES["multilingual_gte"] = Family(
    "Gte",
    {**GTE_SIZES, "vocab_size": XLM_ROBERTA_SIZE + 3},
    Tokens(pad=1, first=0, last=2, first_ordinary=4),
    vocabularies.write_xlm_roberta,
    {"encoder": Case(), "regression": Case(REGRESSION)},
    has_segments=False,
    save=save_apart,
)

# --- RoFormer ------------------------------------------------------------------------------------


def sinusoids(model) -> None:
    """The frozen table of positions, which is a parameter, as the class makes it."""
    table = model.base_model.encoder.embed_positions
    table.weight.data = table.create_weight()


def choices_at_the_end(family, config, rng):
    """Choices with padding before them."""
    lengths = (12, 9, 5, 7, 12, 4)
    flat = random_inputs(family, config, rng, lengths)
    return {
        name: np.stack([np.roll(row, -n) for row, n in zip(rows, lengths, strict=True)]).reshape(
            2, 3, -1
        )
        for name, rows in flat.items()
    }


ROFORMER_GRADIENTS = under(
    "roformer.",
    """embeddings.word_embeddings.weight embeddings.token_type_embeddings.weight
    encoder.layer.0.attention.self.query.weight encoder.layer.0.attention.self.key.bias
    encoder.layer.1.attention.self.value.weight encoder.layer.1.output.LayerNorm.weight""",
)
NARROW = {"embedding_size": 20}
FAMILIES["roformer"] = Family(
    "RoFormer",
    {
        **{"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2},
        **{"intermediate_size": 48, "max_position_embeddings": POSITIONS},
        "vocab_size": len(vocabularies.BERT),
    },
    Tokens(pad=0, first=2, last=3, first_ordinary=5),
    vocabularies.wordpiece(vocabularies.BERT, "BertTokenizer"),
    {
        "encoder": Case(internals=True),
        "encoder_narrow": Case(NARROW | {"type_vocab_size": 3, "hidden_act": "relu"}),
        "masked_lm": Case(
            gradients=(*ROFORMER_GRADIENTS, "cls.predictions.transform.dense.weight")
        ),
        "masked_lm_narrow": Case(NARROW | UNTIED),
        "classification": Case(
            SENTIMENT | {"hidden_act": "relu"},
            (*ROFORMER_GRADIENTS, "classifier.dense.weight", "classifier.out_proj.weight"),
        ),
        "regression": Case(REGRESSION),
        "token_classification": Case(TAGS),
        "question_answering": Case(),
        # transformers reads the last position of a row, be it padding.
        "multiple_choice": Case(make_inputs=choices_at_the_end),
    },
    edit_weights=sinusoids,
)

# --- EuroBERT ------------------------------------------------------------------------------------

BEGIN, END, LLAMA_MASK, _ = map(vocabularies.LLAMA.index, vocabularies.LLAMA_SPECIAL)
GROUPED = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
LLAMA_GRADIENTS = under(
    "model.",
    """layers.0.input_layernorm.weight layers.0.self_attn.q_proj.weight
    layers.0.self_attn.k_proj.weight layers.0.self_attn.v_proj.weight layers.1.self_attn.o_proj.weight
    layers.1.mlp.gate_proj.weight layers.1.mlp.up_proj.weight layers.1.mlp.down_proj.weight
    layers.1.post_attention_layernorm.weight norm.weight""",
)
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 300.0, "factor": 2.5}
BIASES = {"attention_bias": True, "mlp_bias": True}
FAMILIES["eurobert"] = Family(
    "EuroBert",
    {
        **GROUPED,
        **{"intermediate_size": 24, "num_hidden_layers": 3},
        "max_position_embeddings": POSITIONS,
        "rope_parameters": {"rope_type": "default", "rope_theta": 250_000.0},
        "vocab_size": len(vocabularies.LLAMA),
        **{"bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": END},
        "mask_token_id": LLAMA_MASK,
    },
    # Padding is the token that ends rows.
    Tokens(pad=END, first=BEGIN, last=END, first_ordinary=0),
    functools.partial(vocabularies.write_llama, pad="<|end_of_text|>"),
    {
        "encoder": Case(internals=True),
        "encoder_biases": Case(
            TWO_LAYERS
            | BIASES
            | {"num_key_value_heads": 1, "head_dim": 6}
            | {"rope_parameters": LINEAR_ROPE}
        ),
        "masked_lm": Case(gradients=(*LLAMA_GRADIENTS, "lm_head.weight")),
        "masked_lm_tied": Case(
            TWO_LAYERS
            | BIASES
            | {"tie_word_embeddings": True, "num_key_value_heads": 4, "hidden_act": "gelu"}
        ),
        "classification": Case(
            SENTIMENT, (*LLAMA_GRADIENTS, "dense.weight", "dense.bias", "classifier.weight")
        ),
        "classification_mean": Case(TWO_LAYERS | SENTIMENT | {"classifier_pooling": "mean"}),
        "classification_bos": Case(TWO_LAYERS | SENTIMENT | {"classifier_pooling": "bos"}),
        "regression": Case(TWO_LAYERS | REGRESSION),
        "token_classification": Case(TWO_LAYERS | TAGS),
    },
    has_segments=False,
    edit_weights=calm,
)

# --- UltraBERT -----------------------------------------------------------------------------------


def attend_in_groups(module, query, key, value, *inputs, **options):
    """`attend` for heads that share keys."""
    times = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(times, dim=1) for x in (key, value))
    return attend(module, query, key, value, *inputs, **options)


modeling_ultrabert.eager_attention_forward = attend_in_groups
FAMILIES["ultrabert"] = Family(
    "Ultrabert",
    {
        **GROUPED,
        **{"intermediate_size": 24, "num_hidden_layers": 4},
        "max_position_embeddings": POSITIONS,
        **{"sliding_window": 4, "prediction_head_size": 20},
        "vocab_size": len(vocabularies.LLAMA),
        **{"bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": END},
    },
    Tokens(pad=END, first=BEGIN, last=END, first_ordinary=0),
    functools.partial(vocabularies.write_llama, pad="<|end_of_text|>"),
    {
        "encoder": Case(make_inputs=LONG_ROWS, internals=True),
        "encoder_biases": Case(
            TWO_LAYERS
            | BIASES
            | {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 5}
            | {"num_key_value_heads": 4, "head_dim": 6, "rope_parameters": OTHER_ROPES},
            make_inputs=ODD_ROWS,
        ),
        "masked_lm": Case(
            gradients=(
                *LLAMA_GRADIENTS,
                *under("head.", "linear1.weight linear2.weight decoder.weight"),
            ),
            make_inputs=ODD_ROWS,
        ),
        "masked_lm_tied": Case(
            {"num_hidden_layers": 3, "tie_word_embeddings": True}, make_inputs=ODD_ROWS
        ),
        "classification": Case(
            SENTIMENT, (*LLAMA_GRADIENTS, "classifier.weight", "classifier.bias")
        ),
        "classification_mean": Case(
            {"num_hidden_layers": 3, "classifier_pooling": "mean"} | SENTIMENT
        ),
        "regression": Case({"num_hidden_layers": 3} | REGRESSION),
        "token_classification": Case({"num_hidden_layers": 3} | TAGS, make_inputs=ODD_ROWS),
        "question_answering": Case({"num_hidden_layers": 3}, make_inputs=LONG_ROWS),
    },
    has_segments=False,
    edit_weights=calm,
)
