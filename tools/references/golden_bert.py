"""The golden cases of BERT: one for each task and each quirk of released files."""

import functools

import numpy as np
import safetensors.torch
import torch
import transformers
from golden_case import (
    POOLER_FIELDS,
    POSITIONS,
    TINY_SIZES,
    Case,
    Family,
    Tokens,
    head_cases,
    labelled,
    longest_inputs,
    minimal_config,
    position_ids,
    random_inputs,
    save_bin,
    torch_inputs,
)
from golden_files import write_wordpiece
from reference_adamw import bert_adamw

# --- Vocabulary and sizes ------------------------------------------------------------------------

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORDS = (
    "the is was it in on of and to cat dog bird sat ran saw tree river house red blue big small "
    "good bad very not this that he she they we you day night city film book tea "
    "##ing ##ed ##ly ##er ##est ##un ##able ##ful"
)
VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *_LETTERS,
    *(f"##{letter}" for letter in _LETTERS),
    *"0123456789",
    *".,!?'-",
    *_WORDS.split(),
]
PAD, CLS, SEP, MASK = (VOCABULARY.index(token) for token in ("[PAD]", "[CLS]", "[SEP]", "[MASK]"))
TOKENS = Tokens(pad=PAD, first=CLS, last=SEP, first_ordinary=MASK + 1)

# Of the cases that are trained.
STEPS = 20
PEAK_LEARNING_RATE = 1e-3


BERT = Family(
    prefix="Bert",
    tiny_config={
        **TINY_SIZES,
        "vocab_size": len(VOCABULARY),
        "num_hidden_layers": 3,
        "max_position_embeddings": POSITIONS,
    },
    tokens=TOKENS,
    write_vocabulary=functools.partial(
        write_wordpiece, vocabulary=VOCABULARY, tokenizer="BertTokenizer"
    ),
)

# --- Inputs --------------------------------------------------------------------------------------

_TEXT_PAIRS = (
    ("The cat sat on the tree.", "It was a good day!"),
    ("Is this that very big house?", "No"),
    ("we ran to the river, and she saw 27 red birds", "They're not in the city at night..."),
    ("Film", "booked"),
)


def text_inputs(family, config, rng):
    """Pairs of texts and the ids that transformers' tokenizer gives for them."""
    del family, config, rng
    tokenizer = transformers.BertTokenizer(
        vocab={token: index for index, token in enumerate(VOCABULARY)}, do_lower_case=True
    )
    firsts, seconds = zip(*_TEXT_PAIRS, strict=True)
    encoded = tokenizer(list(firsts), list(seconds), padding="longest", return_tensors="np")
    return {
        "texts": np.array(firsts),
        "text_pairs": np.array(seconds),
        "token_ids": encoded["input_ids"].astype(np.int32),
        "segment_ids": encoded["token_type_ids"].astype(np.int32),
        "padding_mask": encoded["attention_mask"].astype(np.int32),
    }


# --- Weight files as they are in circulation -----------------------------------------------------


def save_sharded(model, directory):
    model.save_pretrained(directory, max_shard_size="50KB")


def save_prefixed(model, directory):
    """A bare encoder under the root `bert.`, as if cut out of a model with heads."""
    tensors = {f"bert.{name}": tensor for name, tensor in model.state_dict().items()}
    safetensors.torch.save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def _hub_2018_state(model: transformers.PreTrainedModel) -> dict[str, torch.Tensor]:
    """The state as the first releases have it, norms with gamma and beta."""
    return {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in (model.state_dict() | position_ids(model)).items()
    }


def save_hub_2018_safetensors(model, directory):
    state = {name: tensor.clone() for name, tensor in _hub_2018_state(model).items()}
    safetensors.torch.save_file(state, directory / "model.safetensors", metadata={"format": "pt"})


def save_hub_2018_bin(model, directory, zipped=False):
    """Pickles the state: tied tensors share a storage, and one kernel is a transposed view."""
    state = _hub_2018_state(model)
    kernel = "bert.encoder.layer.0.intermediate.dense.weight"
    state[kernel] = state[kernel].T.contiguous().T
    save_bin(state, directory, zipped)


# --- config.json as it is in circulation --------------------------------------------------------


def pooler_fields_config(config: dict) -> dict:
    """The fields of the multilingual and Chinese checkpoints, with those of transformers 4."""
    config = {key: value for key, value in config.items() if key != "dtype"}
    return {
        **config,
        **POOLER_FIELDS,
        "_name_or_path": "bert-base-multilingual-cased",
        "gradient_checkpointing": False,
        "position_embedding_type": "absolute",
        "torch_dtype": "float32",
        "transformers_version": "4.11.0.dev0",
    }


def verbose_config(config: dict) -> dict:
    """Every field of the base class, as transformers 2 wrote them into fine-tuned checkpoints."""
    return minimal_config(config) | {
        "_num_labels": 3,
        "architectures": config["architectures"],
        "bos_token_id": None,
        "do_sample": False,
        "eos_token_ids": None,
        "finetuning_task": None,
        "id2label": config["id2label"],
        "is_decoder": False,
        "label2id": config["label2id"],
        "layer_norm_eps": config["layer_norm_eps"],
        "length_penalty": 1.0,
        "max_length": 20,
        "model_type": "bert",
        "num_beams": 1,
        "num_return_sequences": 1,
        "output_attentions": False,
        "output_hidden_states": False,
        "output_past": True,
        "pad_token_id": 0,
        "pruned_heads": {},
        "repetition_penalty": 1.0,
        "temperature": 1.0,
        "top_k": 50,
        "top_p": 1.0,
        "torchscript": False,
        "use_bfloat16": False,
    }


# --- A training ----------------------------------------------------------------------------------


def reference_training(
    model: transformers.PreTrainedModel, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Trains with BERT's recipe, without dropout.

    Returns:
        The batches [steps, batch, length], labels [steps, batch], losses [steps], and
        `weight/<name>` for each parameter after the last step.
    """
    batches = [random_inputs(BERT, model.config, rng, lengths=(12, 9, 7, 12)) for _ in range(STEPS)]
    labels = rng.integers(0, model.config.num_labels, (STEPS, 4))
    optimizer, schedule = bert_adamw(model, PEAK_LEARNING_RATE, STEPS)
    losses = []
    for inputs, batch_labels in zip(batches, labels, strict=True):
        loss = model(**torch_inputs(inputs), labels=torch.from_numpy(batch_labels)).loss
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return {
        **{name: np.stack([inputs[name] for inputs in batches]) for name in batches[0]},
        "labels": labels.astype(np.int32),
        "losses": np.array(losses, np.float32),
        **{
            f"weight/{name}": parameter.detach().numpy().astype(np.float32)
            for name, parameter in model.named_parameters()
        },
    }


# --- The cases -----------------------------------------------------------------------------------

_TWO_LAYERS = {"num_hidden_layers": 2}  # enough for a quirk of files, and smaller
_ENCODER_GRADIENTS = (
    "bert.embeddings.word_embeddings.weight",
    "bert.embeddings.position_embeddings.weight",
    "bert.embeddings.token_type_embeddings.weight",
    "bert.embeddings.LayerNorm.weight",
    "bert.encoder.layer.0.attention.self.query.weight",
    "bert.encoder.layer.0.attention.self.key.weight",
    "bert.encoder.layer.1.attention.self.value.bias",
    "bert.encoder.layer.1.attention.output.LayerNorm.bias",
    "bert.encoder.layer.2.intermediate.dense.weight",
    "bert.encoder.layer.2.output.dense.bias",
)
_SENTIMENT = labelled("negative", "neutral", "positive")

CASES = (
    Case(
        "encoder", "The encoder with its pooler, every hidden state and attention.", internals=True
    ),
    Case(
        "encoder_no_pooler",
        "An encoder file without a pooler.",
        model_arguments={"add_pooling_layer": False},
    ),
    Case(
        "encoder_bert_prefix",
        "A bare encoder whose names begin with `bert.`.",
        config=_TWO_LAYERS,
        save=save_prefixed,
    ),
    Case(
        "masked_lm",
        "The output layer is the word embedding; loss and gradients.",
        gradients=(
            *_ENCODER_GRADIENTS,
            "cls.predictions.transform.dense.weight",
            "cls.predictions.transform.LayerNorm.weight",
            "cls.predictions.bias",
        ),
    ),
    Case(
        "masked_lm_untied",
        "A decoder of its own: decoder.bias counts, and predictions.bias, which differs, does not.",
        config=_TWO_LAYERS | {"tie_word_embeddings": False},
    ),
    Case(
        "pretraining",
        "Both heads of BERT's pretraining.",
    ),
    Case(
        "next_sentence_prediction",
        "One head of BERT's pretraining, by itself.",
        config=_TWO_LAYERS,
    ),
    Case(
        "classification",
        "Three named classes, from pairs of texts; loss and gradients.",
        config={"problem_type": "single_label_classification"} | _SENTIMENT,
        make_inputs=text_inputs,
        gradients=(
            *_ENCODER_GRADIENTS,
            "bert.pooler.dense.weight",
            "classifier.weight",
            "classifier.bias",
        ),
        make_training=reference_training,
    ),
    Case(
        "classification_dropout",
        "classifier_dropout differs from the other rates.",
        config=_TWO_LAYERS
        | labelled("no", "yes")
        | {
            "classifier_dropout": 0.3,
            "hidden_dropout_prob": 0.2,
            "attention_probs_dropout_prob": 0.05,
        },
    ),
    Case(
        "multi_label_classification",
        "Any of four named labels for each text; loss and gradients.",
        config=_TWO_LAYERS
        | labelled("toxic", "obscene", "threat", "insult")
        | {"problem_type": "multi_label_classification"},
        gradients=(
            *(name for name in _ENCODER_GRADIENTS if "layer.2" not in name),
            "bert.pooler.dense.weight",
            "classifier.weight",
            "classifier.bias",
        ),
    ),
    Case(
        "question_answering",
        "Start and end of the answer, up to the last position that the model has.",
        config=_TWO_LAYERS,
        make_inputs=longest_inputs,
    ),
    *head_cases(_TWO_LAYERS, choice=""),
    Case(
        "legacy_names",
        "Names of the first releases: gamma and beta, position_ids, tied tensors listed twice.",
        task="pretraining",
        config=_TWO_LAYERS,
        save=save_hub_2018_safetensors,
    ),
    Case(
        "sharded",
        "Several safetensors files and their index.",
        config=_TWO_LAYERS,
        save=save_sharded,
    ),
    Case(
        "bin_zip",
        "pytorch_model.bin as a zip archive; shared storages, a transposed view, legacy names.",
        task="pretraining",
        config=_TWO_LAYERS,
        save=functools.partial(save_hub_2018_bin, zipped=True),
    ),
    Case(
        "bin_legacy",
        "pytorch_model.bin in the format before torch 1.6; else as bin_zip.",
        task="pretraining",
        config=_TWO_LAYERS,
        save=save_hub_2018_bin,
    ),
    Case(
        "gelu_new",
        "GELU by its tanh approximation.",
        config=_TWO_LAYERS | {"hidden_act": "gelu_new"},
    ),
    Case("relu", "ReLU.", config=_TWO_LAYERS | {"hidden_act": "relu"}),
    Case("layer_norm_eps", "Epsilon 1e-5.", config=_TWO_LAYERS | {"layer_norm_eps": 1e-5}),
    Case("type_vocab_size_3", "Three segments.", config=_TWO_LAYERS | {"type_vocab_size": 3}),
    Case("type_vocab_size_1", "One segment.", config=_TWO_LAYERS | {"type_vocab_size": 1}),
    Case(
        "float16_weights",
        "Weights stored as float16, computed with as float32.",
        config=_TWO_LAYERS,
        dtype=torch.float16,
    ),
    Case(
        "bfloat16_weights",
        "Weights stored as bfloat16, computed with as float32.",
        config=_TWO_LAYERS,
        dtype=torch.bfloat16,
    ),
    Case(
        "config_minimal",
        "The config.json of the first releases and the miniatures.",
        config=_TWO_LAYERS,
        edit_config=minimal_config,
    ),
    Case(
        "config_pooler_fields",
        "The config.json of the multilingual and Chinese checkpoints.",
        task="masked_lm",
        config=_TWO_LAYERS,
        edit_config=pooler_fields_config,
    ),
    Case(
        "config_verbose",
        "The config.json of a classifier fine-tuned with transformers 2.",
        task="classification",
        config=_TWO_LAYERS | _SENTIMENT,
        edit_config=verbose_config,
    ),
)
