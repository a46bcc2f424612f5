"""The golden cases of XLM."""

import collections
import json
import pathlib
import shutil

import numpy as np
import safetensors.torch
import torch
from golden_case import (
    POSITIONS,
    TINY_SIZES,
    Case,
    Family,
    Tokens,
    batch_inputs,
    choice_inputs,
    head_cases,
    labelled,
    longest_inputs,
    save_bin,
)
from golden_files import write_json, write_lines

LANGUAGES = ("de", "en", "fr")
_SPECIAL = ("<s>", "</s>", "<pad>", "<unk>", *(f"<special{number}>" for number in range(10)))
_MERGES = (
    *("t h", "th e</w>", "a n", "an d</w>", "c a", "ca t</w>", "s a", "sa t</w>", "o n</w>", "b i"),
    *("bi r", "bir d</w>", "d o", "do g</w>", "i n", "in g</w>", "i s</w>", "' s</w>", "w a"),
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = (
    *_SPECIAL,
    *_LETTERS,
    *(f"{character}</w>" for character in f"{_LETTERS}.,'?!"),
    *(merge.replace(" ", "") for merge in _MERGES),
)


def write_vocabulary(directory: pathlib.Path) -> None:
    # Of generating text, which the others' heads for masked tokens do not have.
    (directory / "generation_config.json").unlink(missing_ok=True)
    ids = {token: index for index, token in enumerate(VOCABULARY)}
    (directory / "vocab.json").write_text(json.dumps(ids))
    write_lines(directory / "merges.txt", _MERGES)
    config = {"tokenizer_class": "XLMTokenizer", "do_lowercase_and_remove_accent": True}
    if directory.name != "encoder_one_language":
        config["lang2id"] = {name: number for number, name in enumerate(LANGUAGES)}
        config["id2lang"] = {str(number): name for number, name in enumerate(LANGUAGES)}
    write_json(directory / "tokenizer_config.json", config)


XLM = Family(
    prefix="XLM",
    tiny_config={
        "emb_dim": TINY_SIZES["hidden_size"],
        "n_heads": TINY_SIZES["num_attention_heads"],
        "n_layers": TINY_SIZES["num_hidden_layers"],
        "max_position_embeddings": POSITIONS,
        "n_langs": len(LANGUAGES),
        "vocab_size": len(VOCABULARY),
    },
    # <pad> is 2; both ends of a text are </s>, and <unk> and ten special tokens follow.
    tokens=Tokens(pad=2, first=1, last=1, first_ordinary=14),
    write_vocabulary=write_vocabulary,
    has_segments=False,
    classes={"masked_lm": "WithLMHeadModel", "question_answering": "ForQuestionAnsweringSimple"},
)


def with_languages(inputs: dict, rng: np.random.Generator) -> dict:
    """Each row begins in one language and may go on in another."""
    *rows, length = inputs["token_ids"].shape
    first, second = rng.integers(0, len(LANGUAGES), (2, *rows, 1))
    goes_on = np.arange(length) >= rng.integers(1, length, (*rows, 1))
    return inputs | {"language_ids": np.where(goes_on, second, first).astype(np.int32)}


def language_inputs(family, config, rng):
    return with_languages(batch_inputs(family, config, rng), rng)


def longest_language_inputs(family, config, rng):
    return with_languages(longest_inputs(family, config, rng), rng)


def choice_language_inputs(family, config, rng):
    return with_languages(choice_inputs(family, config, rng), rng)


def translation_inputs(family, config, rng):
    """Two sentences a row, </s> around both: positions start again, and languages differ."""
    inputs = batch_inputs(family, config, rng)
    length = inputs["token_ids"].shape[1]
    lengths = inputs["padding_mask"].sum(1)
    # The shortest row has one sentence.
    begins = np.where(lengths > 5, lengths // 2, lengths)[:, None]
    place = np.arange(length)
    is_second = place >= begins
    is_border = (place == begins - 1) | (place == begins) & (begins < lengths[:, None])
    languages = np.array([[0, 1], [2, 0], [1, 2], [2, 2]])
    return inputs | {
        "token_ids": np.where(is_border, family.tokens.last, inputs["token_ids"]).astype(np.int32),
        "position_ids": np.where(is_second, place - begins, place).astype(np.int32)
        * inputs["padding_mask"],
        "language_ids": np.where(is_second, languages[:, 1:], languages[:, :1]).astype(np.int32),
    }


def words_of_program() -> list[str]:
    """The vocabulary as the authors' program has it: "@@" where a word goes on, nothing at its end."""
    return [
        *_SPECIAL,
        *(
            token.removesuffix("</w>") if token.endswith("</w>") else f"{token}@@"
            for token in VOCABULARY[len(_SPECIAL) :]
        ),
    ]


def write_program_files(family: Family, case: Case, directory: pathlib.Path) -> None:
    """The weights of a twin as the authors' program saves them while it trains, with fastBPE's files."""
    twin = directory.parent / case.twin
    config = json.loads((twin / "config.json").read_text())
    state = safetensors.torch.load_file(twin / "model.safetensors")
    model = collections.OrderedDict(
        (f"module.{name.removeprefix('transformer.')}", tensor) for name, tensor in state.items()
    )
    model["module.pred_layer.proj.weight"] = model["module.embeddings.weight"]
    words = words_of_program()
    counts = {word: max(0, len(words) - number) for number, word in enumerate(words)}
    counts.update(dict.fromkeys(_SPECIAL, 0))
    sizes = ("emb_dim", "n_heads", "n_layers", "n_langs", "dropout", "attention_dropout", "asm")
    params = {
        **{key: config[key] for key in (*sizes, "gelu_activation", "sinusoidal_embeddings")},
        "share_inout_emb": True,
        "n_words": len(words),
        **{"bos_index": 0, "eos_index": 1, "pad_index": 2, "unk_index": 3, "mask_index": 5},
        "id2lang": dict(enumerate(LANGUAGES)),
        "lang2id": {name: number for number, name in enumerate(LANGUAGES)},
        **{"max_vocab": -1, "min_count": 0, "encoder_only": True, "mlm_steps": [("de", None)]},
        # What a training leaves there.
        "pred_probs": torch.tensor([0.8, 0.1, 0.1]),
        "mono_probs": np.array([0.5, 0.3, 0.2]),
        "para_dataset": {("de", "en"): {"train": ("train.de-en.de.pth", "train.de-en.en.pth")}},
    }
    torch.save(
        {
            **{"epoch": 3, "n_total_iter": 1200, "best_metrics": {"_valid_mlm_ppl": np.float64(9)}},
            "model": model,
            "dico_id2word": dict(enumerate(words)),
            "dico_word2id": {word: number for number, word in enumerate(words)},
            "dico_counts": counts,
            "params": params,
        },
        directory / "mlm_defren.pth",
        _use_new_zipfile_serialization=False,
    )
    write_lines(
        directory / "codes_defren",
        (f"{merge} {1000 - place}" for place, merge in enumerate(_MERGES)),
    )
    write_lines(
        directory / "vocab_defren", (f"{word} {counts[word]}" for word in words[len(_SPECIAL) :])
    )
    shutil.copy(twin / "io.npz", directory / "io.npz")


def scaled_norms(model: torch.nn.Module) -> None:
    """Norms' scales are around 1, as those of the other families are."""
    for name, parameter in model.named_parameters():
        if "layer_norm" in name and name.endswith("weight"):
            parameter.data += 1.0


def hub_config(config: dict) -> dict:
    """The config.json of the released checkpoints, with the keys of its first years."""
    keys = (
        *("architectures", "asm", "attention_dropout", "causal", "dropout", "emb_dim"),
        *("embed_init_std", "end_n_top", "gelu_activation", "init_std", "is_encoder"),
        *("layer_norm_eps", "mask_index", "max_position_embeddings", "model_type", "n_heads"),
        *("n_langs", "n_layers", "start_n_top", "summary_first_dropout", "summary_type"),
        *("sinusoidal_embeddings", "summary_activation", "summary_proj_to_labels"),
        *("summary_use_proj", "unk_index", "use_lang_emb", "id2label", "label2id"),
    )
    told = {key: config[key] for key in keys if key in config}
    return told | {
        "n_words": config["vocab_size"],
        "bos_index": 0,
        "eos_index": 1,
        "pad_index": 2,
        "id2lang": {str(number): name for number, name in enumerate(LANGUAGES)},
        "lang2id": {name: number for number, name in enumerate(LANGUAGES)},
        "max_vocab": -1,
        "min_count": 0,
        "same_enc_dec": True,
        "share_inout_emb": True,
    }


def save_released(model, directory) -> None:
    """As the released files are: pickled, the tied table twice, with the buffer of positions."""
    positions = torch.arange(model.config.max_position_embeddings)[None]
    state = {**model.state_dict(), "transformer.position_ids": positions}
    save_bin(state, directory, zipped=True)


_ONE_LAYER = {"n_layers": 1}  # enough for a head, and smaller
_ENCODER_GRADIENTS = (
    "transformer.embeddings.weight",
    "transformer.position_embeddings.weight",
    "transformer.lang_embeddings.weight",
    "transformer.layer_norm_emb.weight",
    "transformer.attentions.0.q_lin.weight",
    "transformer.attentions.1.v_lin.bias",
    "transformer.ffns.1.lin2.bias",
)


def case(name: str, about: str, make_inputs=language_inputs, **options) -> Case:
    return Case(name, about, make_inputs=make_inputs, edit_weights=scaled_norms, **options)


_REGRESSION, _TAGS, _CHOICE = head_cases(_ONE_LAYER, choice="")

CASES = (
    case(
        "encoder",
        "The encoder, every hidden state and attention; padded rows and languages.",
        internals=True,
    ),
    case(
        "encoder_no_languages",
        "A model of 3 languages that reads none, as those of 17 and 100.",
        config=_ONE_LAYER | {"use_lang_emb": False},
    ),
    case(
        "encoder_one_language",
        "A model of one language has no table of languages.",
        make_inputs=batch_inputs,
        config=_ONE_LAYER | {"n_langs": 1},
    ),
    case(
        "encoder_unsaid",
        "A model of 3 languages that is told none.",
        make_inputs=batch_inputs,
        config=_ONE_LAYER,
    ),
    case(
        "masked_lm",
        "The output layer is the token table, with no layer before it; the files and config.json of "
        "the released checkpoints; loss and gradients.",
        gradients=(*_ENCODER_GRADIENTS, "pred_layer.proj.bias"),
        edit_config=hub_config,
        save=save_released,
    ),
    case(
        "masked_lm_translation",
        "Two sentences a row: positions start again, and languages differ.",
        make_inputs=translation_inputs,
        config=_ONE_LAYER,
    ),
    case("masked_lm_relu", "ReLU in the layers.", config=_ONE_LAYER | {"gelu_activation": False}),
    case(
        "masked_lm_untied",
        "A decoder of its own.",
        config=_ONE_LAYER | {"tie_word_embeddings": False},
    ),
    case(
        "classification",
        "Logits of the first token, with no layer before them; loss and gradients.",
        config={"problem_type": "single_label_classification"} | labelled("no", "maybe", "yes"),
        gradients=(
            *_ENCODER_GRADIENTS,
            "sequence_summary.summary.weight",
            "sequence_summary.summary.bias",
        ),
    ),
    case("regression", _REGRESSION.about, config=_REGRESSION.config),
    case("token_classification", _TAGS.about, config=_TAGS.config),
    case(
        "question_answering",
        "Start and end of the answer, each a layer of its own over every token.",
        make_inputs=longest_language_inputs,
    ),
    case(
        "multiple_choice",
        _CHOICE.about,
        make_inputs=choice_language_inputs,
        config=_CHOICE.config,
    ),
    Case(
        "program",
        "As the authors' program saves what it trains on several devices, in the format before torch "
        "1.6. Twin of masked_lm_translation.",
        task="masked_lm",
        twin="masked_lm_translation",
        make=write_program_files,
    ),
)
