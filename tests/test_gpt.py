"""Decoders: what generation keeps, texts longer than the positions, and GPT's own files and text."""

import dataclasses
import functools
import json
import re
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import text_samples
from helpers import (
    TOLERANCE,
    arrays,
    assert_refused,
    assert_same_variables,
    directory_of,
    in_rust,
    load_case,
    loaded,
    read_json,
    save_tf1,
    tensors_of,
)
from safetensors.numpy import save_file

import bert_zoo
from bert_zoo.families.gpt.text import CharBpeTokenizer
from bert_zoo.models import StatefulLM
from bert_zoo.presets import ROW_ADAPTATION
from bert_zoo.pretraining.batches import StreamRowBatches
from bert_zoo.pretraining.causal import StreamSettings
from bert_zoo.pretraining.run import pretrain

FAMILIES = ("gpt", "gpt2")
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def language_model(family: str):
    return loaded(f"{family}/causal_lm")


def prompts(*lengths: int) -> dict[str, np.ndarray]:
    """Rows of different lengths, padded on the right."""
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype("int32")
    ids = np.random.default_rng(0).integers(5, 80, mask.shape, "int32")
    return {"token_ids": ids * mask, "padding_mask": mask}


def without_memory(model, row: np.ndarray, number: int, choose) -> np.ndarray:
    """New tokens, each chosen from a call with all before it."""
    for _ in range(number):
        log_probs = keras.ops.convert_to_numpy(model({"token_ids": row[None]})["log_probs"])
        row = np.append(row, np.int32(choose(log_probs[0, -1])))
    return row[-number:]


# --- Generation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_generation_gives_the_tokens_of_calls_without_memory(family, monkeypatch):
    monkeypatch.setattr("bert_zoo.tasks.causal_lm.PIECE", 4)
    model, prompt = language_model(family), prompts(9, 1, 4)
    found = model.generate(prompt, max_new_tokens=20, stop=None)[:, 9:]
    for row, real, new in zip(prompt["token_ids"], prompt["padding_mask"], found, strict=True):
        assert new.tolist() == without_memory(model, row[real > 0], 20, np.argmax).tolist()
    pieces = [*model.generate(prompt, max_new_tokens=20, stop=None, stream=True)]
    assert np.array_equal(np.concatenate(pieces[1:], axis=1), found)


def test_a_text_has_room_in_the_positions():
    model = language_model("gpt2")
    assert model.longest_input == 40
    assert model.generate(prompts(30), max_new_tokens=11, stop=None).shape == (1, 41)
    generate = functools.partial(model.generate, prompts(30), max_new_tokens=12)
    assert_refused(generate, "30 tokens | 40 positions | at most 11 new")
    words = "has a fixed number of positions"
    assert_refused(lambda: StatefulLM(model, 2), words)


def test_memory_is_checked_and_never_overwritten():
    model, inputs = language_model("gpt2"), {"token_ids": prompts(6)["token_ids"]}
    state = model.initial_memory(1, tokens=10)
    first = model({**inputs, **state})
    assert np.isfinite(first["log_probs"]).all()
    after = {name: first[name] for name in state}
    assert np.isnan(model({**inputs, **after})["log_probs"]).all()
    assert "memory" not in model(inputs)
    memory = state["memory"]
    for given, words in (
        ({"memory": memory}, "go together"),
        ({**state, "memory": memory[:3]}, "has 3 entries"),
        ({**state, "memory": memory[::-1]}, "memory[0] has shape"),
    ):
        assert_refused(functools.partial(model, {**inputs, **given}), words)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_compiles_with_static_shapes(family):
    model, prompt = language_model(family), prompts(12)["token_ids"]
    whole = model({"token_ids": prompt})["log_probs"]
    step = tf.function(model, jit_compile=True)
    state, found = model.initial_memory(1, tokens=16), []
    for place in range(12):
        outputs = step({"token_ids": prompt[:, place : place + 1], **state})
        state = {name: outputs[name] for name in state}
        found.append(outputs["log_probs"])
    assert step.experimental_get_tracing_count() == 1
    np.testing.assert_allclose(np.concatenate(found, axis=1), whole, atol=TOLERANCE)


# --- Scores --------------------------------------------------------------------------------------


def test_scores_are_those_of_one_call_with_the_end_token_before():
    model, text = language_model("gpt2"), "the cat sat on the dog"
    (score,) = model.score([text], segment_length=4)
    tokenizer = model.preprocessor.tokenizer
    ids = tokenizer([text]).numpy()[0]
    read = np.append(tokenizer.eos_id, ids[:-1])[None].astype("int32")
    wanted = model({"token_ids": read, "labels": ids[None]})["log_probs"][0]
    np.testing.assert_allclose(score.log_probs, wanted, atol=TOLERANCE)
    np.testing.assert_allclose(score.perplexity, np.exp(-np.mean(wanted)), rtol=1e-5)
    bits = -np.sum(wanted) / np.log(2) / len(text)
    np.testing.assert_allclose(score.bits_per_character, bits, rtol=1e-5)
    # GPT's vocabulary has no end token: its first token is only read.
    other = language_model("gpt")
    tokens = other.preprocessor.tokenizer([text]).numpy()[0]
    assert len(other.score([text])[0].tokens) == len(tokens) - 1


def test_long_texts_are_scored_in_windows_of_which_half_is_seen_again():
    model, text = language_model("gpt2"), "the cat's dog sat. " * 20
    (score,) = model.score([text])
    tokenizer = model.preprocessor.tokenizer
    ids = np.append(tokenizer.eos_id, tokenizer([text]).numpy()[0]).astype("int32")
    assert len(score.tokens) == len(ids) - 1 > 2 * model.longest_input
    for place in (0, 39, 40, 59, 60, 61, len(ids) - 2):
        first = max(0, -(-(place + 1 - 40) // 20) * 20)
        labels = np.full((1, place + 1 - first), -100, "int32")
        labels[0, -1] = ids[place + 1]
        inputs = {"token_ids": ids[None, first : place + 1], "labels": labels}
        wanted = model(inputs)["log_probs"][0, -1]
        np.testing.assert_allclose(score.log_probs[place], wanted, atol=TOLERANCE)


# --- Files ---------------------------------------------------------------------------------------


def test_gpt2_reads_openais_own_files(tmp_path):
    """Kernels with an axis for windows, hparams.json, encoder.json and vocab.bpe."""
    source = directory_of("gpt2/encoder")
    config = read_json(source / "config.json")
    sizes = {"n_vocab": "vocab_size", "n_ctx": "n_positions"}
    sizes |= {name: name for name in ("n_embd", "n_head", "n_layer")}
    hparams = {theirs: config[ours] for theirs, ours in sizes.items()}
    (tmp_path / "hparams.json").write_text(json.dumps(hparams))
    shutil.copy(source / "vocab.json", tmp_path / "encoder.json")
    shutil.copy(source / "merges.txt", tmp_path / "vocab.bpe")
    tensors = {}
    for key, value in tensors_of(source).items():
        name = re.sub(r"^h\.", "h", key).replace(".", "/")
        for ours, theirs in (
            (r"^(wte|wpe)/weight$", r"\1"),
            (r"(ln_\w+)/weight$", r"\1/g"),
            (r"/weight$", "/w"),
            (r"/bias$", "/b"),
        ):
            name = re.sub(ours, theirs, name)
        tensors[f"model/{name}"] = value[None] if name.endswith("/w") else value
    save_tf1(tmp_path / "model.ckpt", tensors)
    model = bert_zoo.load(tmp_path, task="encoder")
    assert_same_variables(model, loaded("gpt2/encoder"))
    texts = ["the cat's dog", "a<|endoftext|> the"]
    ours, wanted = (m.preprocessor(texts) for m in (model, loaded("gpt2/encoder")))
    assert np.array_equal(ours["token_ids"], wanted["token_ids"])


def test_other_scales_of_scores_hold_with_memory_and_reach_transformers(tmp_path):
    """Divided by the number of the layer alone."""
    model = loaded("gpt2/encoder_scales")
    ids = prompts(9, 9)["token_ids"]
    state = {name: model.initial_memory(2)[name] for name in ("memory", "memory_mask")}
    first = model({"token_ids": ids[:, :4], **state})
    second = model({"token_ids": ids[:, 4:], **{name: first[name] for name in state}})
    whole = model({"token_ids": ids})["sequence_output"]
    np.testing.assert_allclose(second["sequence_output"], whole[:, 4:], atol=TOLERANCE)
    bert_zoo.save(model, tmp_path, format="hf")
    written = read_json(tmp_path / "config.json")
    assert not written["scale_attn_weights"] and written["scale_attn_by_inverse_layer_idx"]
    assert_refused(lambda: model.config.with_layers([1]), "scale_by_layer | Choose the first ones")


def test_masks_of_attention_in_old_files_are_no_weights(tmp_path):
    directory = shutil.copytree(directory_of("gpt2/encoder"), tmp_path / "old")
    tensors = tensors_of(directory)
    tensors |= {f"h.{i}.attn.bias": np.ones((1, 1, 40, 40), "float32") for i in range(2)}
    tensors |= {f"h.{i}.attn.masked_bias": np.float32([-1e4]) for i in range(2)}
    save_file(tensors, directory / "model.safetensors")
    assert_same_variables(bert_zoo.load(directory), loaded("gpt2/encoder"))


def test_the_last_token_is_classified_wherever_padding_stands():
    """GPT-2 has no token for padding: the mask alone tells."""
    model, io = loaded("gpt2/classification"), arrays("gpt2/classification")
    for number, length in enumerate(io["padding_mask"].sum(axis=1)):
        alone = model({"token_ids": io["token_ids"][number : number + 1, :length]})
        np.testing.assert_allclose(alone[0], io["logits"][number], atol=TOLERANCE)


# --- Text ----------------------------------------------------------------------------------------


def trained_char_bpe(texts, merges: int):
    """A vocabulary of BPE over characters, as Hugging Face's library makes it."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=merges, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    ids = model["vocab"]
    return CharBpeTokenizer(sorted(ids, key=ids.get), [tuple(merge) for merge in model["merges"]])


def assert_as_in_rust(tokenizer, texts) -> None:
    rust = in_rust(tokenizer)
    for start in range(0, len(texts), 500):
        batch = texts[start : start + 500]
        wanted = [encoding.ids for encoding in rust.encode_batch(batch)]
        for text, ids, expected in zip(batch, tokenizer(batch).to_list(), wanted, strict=True):
            assert ids == expected, text


def test_words_become_hugging_faces_ids():
    written = [text for text in text_samples.WRITTEN_TEXTS if max(text, default="") < "\ud800"]
    tokenizer = trained_char_bpe(written * 2, 400)
    more = ["aaa aaaa aaaaa", "<unk> a<unk>b < unk>", "x</w>y </w>", "", " "]
    assert_as_in_rust(tokenizer, [*written, *more, "low\nlower\tnewest widest"])
    words = tokenizer.detokenize(tokenizer(["The quick, brown fox"])).numpy()[0].decode()
    assert words == in_rust(tokenizer).decode(tokenizer(["The quick, brown fox"]).numpy()[0])


@pytest.mark.slow
@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="needs the texts in ../shared/data")
def test_words_of_every_text_become_hugging_faces_ids():
    texts = [text for _, corpus in text_samples.corpora(SHARED_DATA) for text in corpus]
    tokenizer = trained_char_bpe(texts, 12_000)
    assert_as_in_rust(tokenizer, texts)


# --- Continued training --------------------------------------------------------------------------


def test_rows_are_full_and_every_pass_has_all_of_them():
    batches = StreamRowBatches(np.arange(101, dtype="int32"), 2, 10, seed=1)
    assert (batches.per_epoch, batches.tokens) == (5, 20.0)
    rows = [batches.at(number)["token_ids"] for number in range(10)]
    for a_pass in (rows[:5], rows[5:]):
        assert sorted(np.concatenate(a_pass)[:, 0].tolist()) == [*range(0, 100, 10)]
    assert not np.array_equal(np.concatenate(rows[:5]), np.concatenate(rows[5:]))
    at = batches.at(3)
    assert np.array_equal(at["labels"], at["token_ids"] + 1)
    for number, found in enumerate(batches.dataset(3, 7), 3):
        assert np.array_equal(found["token_ids"], rows[number])
    words = "has only 10 rows, but a batch has 11"
    assert_refused(lambda: StreamRowBatches(np.arange(101), 11, 10, seed=0), words)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_language_model_goes_on_with_a_text(family, tmp_path):
    words, rng = "the cat sat on a dog and was bird".split(), np.random.default_rng(0)
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(" ".join(rng.choice(words, 12)) + "." for _ in range(200)))
    sizes = {"segment_length": 16, "batch_size": 8, "total_steps": 30, "warmup_steps": 2}
    results = pretrain(
        f"{family}_tiny",
        lambda: load_case(f"{family}/causal_lm", dropout=0.0),
        StreamSettings(dataclasses.replace(ROW_ADAPTATION, **sizes, learning_rate=5e-3)),
        [str(text)],
        tmp_path / "run",
        held_out=0.1,
    )
    before, after = (results[when]["held out loss"] for when in ("before", "after"))
    assert after < 0.7 * before
    model = bert_zoo.load(tmp_path / "run" / "model")
    assert model.task == "causal_lm"
    assert model.generate("the cat", max_new_tokens=3).startswith("the cat")
