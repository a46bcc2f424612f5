"""NeoBERT: released names and configuration, queries, keys and values of each head together, its masks."""

import json

import numpy as np
import pytest
from helpers import (
    arrays,
    assert_refused,
    assert_same,
    changed_copy,
    directory_of,
    inputs_of,
    loaded,
    tensors_of,
)
from safetensors.numpy import save_file

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.families.neobert import NeoBertConfig, head_by_head
from bert_zoo.families.roformer import rotating_pairs
from bert_zoo.registry import registry
from bert_zoo.tasks.objectives import OBJECTIVES, Draws, TokenIds

ENCODER = "neobert/encoder"


def test_parameters_with_the_decoder_are_the_published_number():
    family = registry().families["neobert"]
    config = family.config(family.checkpoints[0])
    decoder = config.vocab_size * (config.hidden_size + 1)
    assert family.count(config) + decoder == 245_136_954


def test_heads_of_a_joint_tensor_are_found():
    config = NeoBertConfig(vocab_size=9, hidden_size=12, num_heads=3)
    order = head_by_head(config)
    assert sorted(order) == [*range(36)]
    # The first head's queries, by halves; the second's; and the last head's values.
    assert order[:8].tolist() == [0, 2, 1, 3, 12, 14, 13, 15]
    assert order[-4:].tolist() == [32, 33, 34, 35]
    assert rotating_pairs(config)[:4].tolist() == [0, 2, 1, 3]


def test_compiled_models_and_other_prefixes_are_the_same(tmp_path):
    tensors = tensors_of(directory_of(ENCODER))
    expected = loaded(ENCODER)(inputs_of(arrays(ENCODER)))
    for before in ("model.", "_orig_mod.", "_orig_mod.model."):
        directory = changed_copy(ENCODER, tmp_path / before)
        named = {before + key: value for key, value in tensors.items()}
        named[before + "freqs_cis"] = np.zeros((3, 2), "float32")
        save_file(named, directory / "model.safetensors")
        assert_same(bert_zoo.load(directory)(inputs_of(arrays(ENCODER))), expected)


def test_feed_forward_layers_are_two_thirds_as_wide_as_the_file_says(tmp_path):
    for said in (50, 59, 60):
        directory = changed_copy(ENCODER, tmp_path / str(said), intermediate_size=said)
        assert bert_zoo.load(directory).config.intermediate_size == 40
    bert_zoo.save(loaded(ENCODER), tmp_path / "saved", format="hf")
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["intermediate_size"] == 60


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tie_word_embeddings": True}, "tie_word_embeddings"),
        ({"ngpt": True}, "ngpt"),
        ({"rope": False}, "rope"),
        ({"hidden_act": "gelu"}, "hidden_act"),
    ],
)
def test_settings_of_derived_programs_are_refused(changes, words, tmp_path):
    directory = changed_copy(ENCODER, tmp_path, **changes)
    assert_refused(lambda: bert_zoo.load(directory), words, ConfigError)


def test_rows_have_no_more_tokens_than_positions():
    ids = np.full((1, 41), 7, "int32")
    with pytest.raises(ValueError, match="41 tokens per row"):
        loaded(ENCODER)({"token_ids": ids})


def test_a_fifth_of_the_tokens_is_predicted_and_all_of_these_are_masks():
    objective = OBJECTIVES["dynamic_masks_20"].for_tokens(TokenIds(mask_id=4, vocab_size=80))
    ids = np.full((200, 40), 7, "int32")
    batch = {
        "token_ids": ids,
        "padding_mask": np.ones_like(ids),
        "special": np.zeros(ids.shape, bool),
        "word_starts": np.ones(ids.shape, bool),
        "row": np.arange(200),
    }
    inputs, labels = objective(batch, Draws(0, 0, batch["row"]))
    predicted = (np.asarray(labels["mlm_logits"]) != -100).sum()
    assert predicted == (inputs["token_ids"] == 4).sum() == 0.2 * ids.size
