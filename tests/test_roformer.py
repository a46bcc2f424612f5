"""RoFormer: its table of sines, what is refused, and Chinese words."""

import logging

import numpy as np
import pytest
from helpers import assert_refused, changed_copy, directory_of, loaded, tensors_of
from safetensors.numpy import save_file

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.registry import registry
from bert_zoo.text.files import VocabularyFiles

MASKED_LM = "roformer/masked_lm"
TABLE = "roformer.encoder.embed_positions.weight"


def test_parameters_with_head_and_table_are_the_published_number():
    family = registry().families["roformer"]
    checkpoint = family.checkpoints[0]
    config = family.config(checkpoint)
    assert family.count(config) == checkpoint.params
    (table,) = family.formats["hf"].buffers(config).values()
    width = config.hidden_size
    head = width * (width + 1) + 2 * width + config.vocab_size
    assert checkpoint.params + table.size == 123_555_840
    assert checkpoint.params + table.size + head == 124_197_968


def test_another_table_of_positions_is_refused_and_none_is_no_matter(tmp_path):
    tensors = tensors_of(directory_of(MASKED_LM))
    directory = changed_copy(MASKED_LM, tmp_path)
    for table, fits in (
        (tensors[TABLE][:, ::-1], False),
        (tensors[TABLE][:9], False),
        (None, True),
    ):
        others = {} if table is None else {TABLE: np.ascontiguousarray(table)}
        kept = {key: value for key, value in tensors.items() if key != TABLE}
        save_file(kept | others, directory / "model.safetensors", {"format": "pt"})
        if fits:
            assert bert_zoo.load(directory).config == loaded(MASKED_LM, "encoder").config
        else:
            assert_refused(lambda: bert_zoo.load(directory), "embed_positions", ConfigError)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rotary_value": True}, "rotary_value"),
        ({"summary_type": "first"}, "summary_type"),
        ({"is_decoder": True}, "is_decoder"),
    ],
)
def test_other_settings_are_refused(changes, words, tmp_path):
    directory = changed_copy(MASKED_LM, tmp_path, **changes)
    assert_refused(lambda: bert_zoo.load(directory), words, ConfigError)


def test_chinese_words_of_a_vocabulary_are_warned_of(tmp_path, caplog):
    read = registry().families["roformer"].text.read
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "天", "气", "##气"]
    for more, warned in ((["天气"], True), ([], False)):
        (tmp_path / "vocab.txt").write_text("\n".join([*words, *more]), encoding="utf-8")
        with caplog.at_level(logging.WARNING, "bert_zoo"):
            read(VocabularyFiles(tmp_path), {"lowercase": True})
        assert ("'天气'" in caplog.text) == warned
        caplog.clear()
