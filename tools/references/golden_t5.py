"""What the goldens of T5, mT5, UMT5 and ByT5 need beside those of encoders: targets, and texts with sentinels."""

import pathlib
import tempfile

import golden_vocabularies as vocabularies
import numpy as np
import torch
import transformers
from golden_case import random_inputs, torch_inputs

# Decoders read targets of these lengths, which begin with the id of padding.
TARGET_LENGTHS = (9, 7, 4, 2)
TEXTS = (
    "the <extra_id_0> tree,  <extra_id_1>ran",
    "to  the häuse?",
    "<extra_id_0>",
    "12 </s> it was",
)
PAIRS = ("a river", "was it good ?", "", "the big red city")
SENTINELS = 5


def write_t5(directory: pathlib.Path) -> None:
    options = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    special = ("<pad>", "</s>", "<unk>")
    path = directory / "spiece.model"
    vocabularies.train_sentencepiece(path, vocabularies.PIECES, special, **options)
    vocabularies.write_tokenizer(directory, "T5Tokenizer", extra_ids=SENTINELS)


def write_byt5(directory: pathlib.Path) -> None:
    """There are no files but this one."""
    vocabularies.write_tokenizer(directory, "ByT5Tokenizer")


def with_targets(make_inputs):
    """Sources, and targets shifted to the right beside them."""

    def make(family, config, rng):
        inputs = make_inputs(family, config, rng)
        lengths = np.array(TARGET_LENGTHS)[:, None]
        mask = np.arange(max(TARGET_LENGTHS)) < lengths
        ids = rng.integers(family.tokens.first_ordinary, config.vocab_size, mask.shape)
        ids = np.where(mask, ids, family.tokens.pad)
        ids[:, 0] = family.tokens.pad
        return inputs | {
            "decoder_token_ids": ids.astype(np.int32),
            "decoder_padding_mask": mask.astype(np.int32),
        }

    return make


def sources(family, config, rng):
    """Texts that end in `</s>`, of random tokens."""
    return random_inputs(family, config, rng, lengths=(16, 11, 6, 3))


def texts(family, config, rng):
    """Pairs of texts, and the ids that transformers' tokenizer gives for them."""
    with tempfile.TemporaryDirectory() as directory:
        family.write_vocabulary(pathlib.Path(directory))
        tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    encoded = tokenizer(list(TEXTS), list(PAIRS), padding="longest", return_tensors="np")
    return {
        "texts": np.array(TEXTS),
        "text_pairs": np.array(PAIRS),
        "token_ids": encoded["input_ids"].astype(np.int32),
        "padding_mask": encoded["attention_mask"].astype(np.int32),
    }


def target_labels(inputs, family, config, rng):
    """The tokens that follow those of the decoder, but for padding."""
    mask = inputs["decoder_padding_mask"] == 1
    ids = rng.integers(family.tokens.first_ordinary, config.vocab_size, mask.shape)
    return np.where(mask, ids, -100)


def call(model, inputs, **options):
    decoder = {
        "decoder_input_ids": inputs["decoder_token_ids"],
        "decoder_attention_mask": inputs["decoder_padding_mask"],
    }
    decoder = {name: torch.from_numpy(value).long() for name, value in decoder.items()}
    return model(**torch_inputs(inputs), **decoder, **options)


def calm(model: torch.nn.Module) -> None:
    """Smaller queries, whose scores nothing divides."""
    for name, parameter in model.named_parameters():
        parameter.data *= 0.2 if name.endswith("Attention.q.weight") else 1.0


def calm_and_untied(model: torch.nn.Module) -> None:
    """Gives the logits a table of their own, as version 1.1 has it; transformers 5 begins with one for both."""
    calm(model)
    generator = torch.Generator().manual_seed(0)
    values = 0.1 * torch.randn(model.shared.weight.shape, generator=generator)
    model.lm_head.weight = torch.nn.Parameter(values)


def released_config(values: dict) -> dict:
    """As transformers 4 wrote it for version 1.1."""
    del values["scale_decoder_outputs"]
    return values | {"tie_word_embeddings": False}


def released_mt5_config(values: dict) -> dict:
    return values | {"tie_word_embeddings": False}


def released_umt5_config(values: dict) -> dict:
    del values["scale_decoder_outputs"]
    return values | {"scalable_attention": True, "tie_word_embeddings": False}
