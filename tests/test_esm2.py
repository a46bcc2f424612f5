"""ESM-2: its tokenizer, masks that are dropped, contacts, and files of its versions."""

import json

import keras
import numpy as np
import pytest
from helpers import (
    CASES,
    arrays,
    assert_refused,
    assert_same,
    changed_copy,
    directory_of,
    family_of,
    inputs_of,
    load_case,
    loaded,
    refusals,
    tensors_of,
)
from safetensors.numpy import save_file

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.families.esm2.cards import CHECKPOINTS
from bert_zoo.families.esm2.layers import ContactHead
from bert_zoo.registry import registry

needs_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="Keras does not run on TensorFlow."
)
ENCODER = "esm2/encoder"
PROTEINS = ["MKTAYIAKQRQISFVKSHFSRQ", "MKT", "A<mask>K.-", ""]


# --- Texts ---------------------------------------------------------------------------------------

# Text -> tokens, as transformers' EsmTokenizer splits it.
SPLIT = {
    "MKT": "M K T",
    " M K\u2003T\n": "M K T",
    "mkT": "<unk> T",
    "M ab1 é K": "M <unk> <unk> K",
    "<cls>M<mask>K<eos><pad>": "<cls> M <mask> K <eos> <pad>",
    "M<maskK": "M <unk> K",
    "a b\x1cc": "<unk> <unk> <unk>",
    "J1": "<unk>",
    "<null_1>-.": "<null_1> - .",
    "": "",
}


@needs_tensorflow
def test_letters_are_found_with_and_without_blanks():
    tokenizer = loaded(ENCODER).preprocessor.tokenizer
    ids = tokenizer([*SPLIT]).to_list()
    assert [[tokenizer.id_to_token(i) for i in row] for row in ids] == [
        tokens.split() for tokens in SPLIT.values()
    ]
    found, starts, ends = tokenizer.tokenize_with_offsets([*SPLIT])
    assert found.to_list() == ids
    for text, row, first, last in zip(SPLIT, ids, starts.to_list(), ends.to_list(), strict=True):
        covered = [text[a:b] for a, b in zip(first, last, strict=True)]
        spelled = [tokenizer.id_to_token(i) for i in row]
        assert all(c == s or s == "<unk>" for c, s in zip(covered, spelled, strict=True))
        assert all(c.strip() == c != "" for c in covered)
    assert tokenizer.detokenize([[0, *ids[0], 2]]).numpy().tolist() == [b"MKT"]


@needs_tensorflow
def test_numpy_reads_proteins_as_the_graph_does():
    from bert_zoo.text.windows import reader_of

    tokenizer = loaded(ENCODER).preprocessor.tokenizer
    texts = [*SPLIT, "M\u3000a\u00a0b K", "e\u0301x"]
    tokens = reader_of(tokenizer).tokenized(texts, with_spans=True)
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert tokens.ids.tolist() == ids.flat_values.numpy().tolist()
    assert tokens.lengths.tolist() == ids.row_lengths().numpy().tolist()
    spans = np.stack([starts.flat_values, ends.flat_values], axis=1)
    assert np.array_equal(tokens.spans, spans)


@needs_tensorflow
def test_rows_begin_with_cls_and_end_with_eos():
    preprocessor = loaded(ENCODER).preprocessor
    names = preprocessor.tokenizer.vocabulary
    row = preprocessor((["MK"], ["T"]))["token_ids"][0].numpy()
    assert [names[i] for i in row if names[i] != "<pad>"] == "<cls> M K <eos> T <eos>".split()


# --- Masks ---------------------------------------------------------------------------------------


def embedded(ids, **inputs) -> np.ndarray:
    model = load_case(ENCODER, output_hidden_states=True)
    return np.asarray(model({"token_ids": np.array(ids, "int32"), **inputs})["hidden_states"][0])


def test_embeddings_are_scaled_by_the_share_of_tokens_that_are_not_masked():
    table = np.asarray(loaded(ENCODER).backbone.token_table)
    (plain,) = embedded([[0, 5, 6, 7, 2]])
    assert_same(plain, 0.88 * table[[0, 5, 6, 7, 2]], 1e-6)
    (masked,) = embedded([[0, 5, 32, 7, 2]])
    assert_same(masked[[0, 1, 3, 4]], 1.1 * table[[0, 5, 7, 2]], 1e-6)
    assert not masked[2].any()


def test_a_row_of_masks_or_of_padding_is_zero_and_finite():
    ids = np.array([[32, 32, 32], [1, 1, 1]], "int32")
    mask = np.array([[1, 1, 1], [0, 0, 0]], "int32")
    assert not embedded(ids, padding_mask=mask).any()
    outputs = loaded(ENCODER)({"token_ids": ids, "padding_mask": mask})
    assert np.isfinite(np.asarray(outputs["sequence_output"])).all()


def test_masks_are_counted_in_each_document():
    first, second = [0, 5, 32, 7, 2], [0, 6, 2]
    row = {"document_ids": np.array([[1] * 5 + [2] * 3], "int32")}
    model = loaded(ENCODER)
    (packed,) = np.asarray(
        model({"token_ids": np.array([first + second]), **row})["sequence_output"]
    )
    for ids, part in ((first, packed[:5]), (second, packed[5:])):
        (alone,) = np.asarray(model({"token_ids": np.array([ids])})["sequence_output"])
        assert_same(part, alone, 1e-5)


# --- Contacts ------------------------------------------------------------------------------------


def test_contacts_of_ids_equal_the_reference():
    """Of short rows, transformers' map has more columns than the protein has residues."""
    inputs = inputs_of(arrays(ENCODER))
    with np.load(directory_of(ENCODER) / "beside.npz") as file:
        expected = file["contacts"]
    model = loaded(ENCODER)
    attentions = model(inputs, internals=True)["attentions"]
    head = model.backbone.contact_head
    found = np.asarray(head(attentions, inputs["token_ids"], inputs["padding_mask"]))
    assert found.shape == expected.shape and np.ptp(expected) > 0.1
    assert_same(found, expected, 1e-5)


@needs_tensorflow
def test_contacts_are_as_large_as_the_protein_and_symmetric():
    found = loaded(ENCODER).contacts(PROTEINS)
    assert [x.shape for x in found] == [(n, n) for n in (22, 3, 5, 0)]
    for x in found:
        assert_same(x, x.T, 1e-6)
        assert ((x > 0) & (x < 1)).all()
    (alone,) = loaded(ENCODER).contacts(PROTEINS[0])
    assert_same(alone, found[0], 1e-6)
    assert len(loaded(ENCODER).contacts([])) == 0


def test_contacts_follow_the_published_formula():
    """Of one head and weight 1, in NumPy."""
    rng = np.random.default_rng(0)
    attention = rng.random((1, 1, 6, 6)).astype("float32")
    head = ContactHead(1)
    head.build()
    head.kernel.assign([[3.0]])
    ids, mask = np.array([[0, 9, 9, 9, 2, 1]]), np.array([[1, 1, 1, 1, 1, 0]])
    found = np.asarray(head([attention], ids, mask))[0]
    kept = np.outer(*2 * [(mask[0] == 1) & (ids[0] != 2)])
    x = (attention[0, 0] * kept)[1:-1, 1:-1]
    x = x + x.T
    x = x - x.sum(1, keepdims=True) * x.sum(0, keepdims=True) / x.sum()
    assert_same(found, 1 / (1 + np.exp(-3 * x)), 1e-6)


@refusals((lambda: loaded("bert/encoder").contacts(["MKT"]), "family bert | esm2_t6_8m"))
def test_other_families_predict_no_contacts(call, words):
    assert_refused(call, words, ValueError)


# --- Files ---------------------------------------------------------------------------------------

# Of the model for masked tokens (facebookresearch/esm, README).
COUNTS = {
    "esm2_t6_8m": 7_512_474,
    "esm2_t12_35m": 33_501_394,
    "esm2_t30_150m": 148_140_154,
    "esm2_t33_650m": 651_043_254,
    "esm2_t36_3b": 2_839_005_634,
    "esm2_t48_15b": 15_129_100_194,
}


def test_cards_and_their_heads_have_the_released_numbers_of_parameters():
    family = registry().families["esm2"]
    for checkpoint in CHECKPOINTS:
        config = family.config(checkpoint)
        width = config.hidden_size
        head = width * width + 3 * width + config.vocab_size
        assert checkpoint.params + head == COUNTS[checkpoint.name], checkpoint.name


OTHERS = [
    ({"position_embedding_type": "absolute"}, "ESM-1b | 'absolute'"),
    ({"position_embedding_type": None}, "ESM-1b"),
    ({"is_folding_model": True}, "ESMFold"),
    ({"emb_layer_norm_before": True}, "emb_layer_norm_before"),
    ({"hidden_act": "relu"}, "hidden_act"),
    ({"mask_token_id": None}, "mask_id is None"),
    ({"add_cross_attention": True}, "add_cross_attention"),
    ({"rope_theta": 50.0}, "inv_freq | rope_theta 50.0"),
]


@pytest.mark.parametrize(("changes", "words"), OTHERS)
def test_other_models_of_the_type_are_refused(changes, words, tmp_path):
    directory = changed_copy("esm2/masked_lm", tmp_path, **changes)
    assert_refused(lambda: bert_zoo.load(directory), words, ConfigError)


def test_frequencies_in_half_precision_stay_so(tmp_path):
    model = loaded("esm2/encoder_half")
    assert model.config.rope_kept_in == "float16"
    assert loaded(ENCODER).config.rope_kept_in == "float32"
    bert_zoo.save(model, tmp_path, format="hf")
    stored = tensors_of(tmp_path)["rotary_embeddings.inv_freq"]
    assert np.array_equal(stored, stored.astype("float16")) and len(stored) == 4
    assert bert_zoo.load(tmp_path).config == model.config


def test_fine_tuned_files_need_no_head_for_contacts(tmp_path):
    """Programs that fine-tune may leave out what they do not train."""
    directory = changed_copy("esm2/classification", tmp_path)
    tensors = tensors_of(directory)
    kept = {k: v for k, v in tensors.items() if ".contact_head." not in k}
    save_file(kept, directory / "model.safetensors", {"format": "pt"})
    model = bert_zoo.load(directory, "classification")
    inputs = inputs_of(arrays("esm2/classification"))
    assert_same(model(inputs), loaded("esm2/classification")(inputs), 1e-6)


def test_longer_proteins_are_read_where_the_model_is_loaded_for_them():
    ids = {"token_ids": np.full((1, 60), 7, "int32")}
    with pytest.raises(ValueError, match="60 tokens per row"):
        loaded(ENCODER)(ids)
    assert load_case(ENCODER, max_positions=60)(ids)["sequence_output"].shape == (1, 60, 32)


def test_the_head_for_contacts_is_not_trained():
    model = load_case("esm2/masked_lm")
    assert not any("contact" in variable.path for variable in model.trainable_variables)
    assert any("contact" in variable.path for variable in model.variables)


def test_goldens_have_the_released_keys():
    config = json.loads((directory_of("esm2/masked_lm") / "config.json").read_text())
    assert {"vocab_list", "esmfold_config", "is_folding_model"} <= config.keys()
    assert sum(family_of(case) == "esm2" for case in CASES) == 8
