"""Generation and scoring with a memory, against the model run over everything at once."""

import functools
import itertools
import math
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers import assert_refused, refusals
from keras import ops
from keras_hub import samplers

import bert_zoo
from bert_zoo.families.transformer_xl.family import RecurrentConfig
from bert_zoo.models import CausalLM, Encoder
from bert_zoo.tasks.causal_lm import PIECE, TextPrompts, read_prompts
from bert_zoo.text.byte_bpe import ALPHABET, ByteBpeTokenizer
from bert_zoo.text.preprocessor import LanguageModelPreprocessor
from bert_zoo.text.word_level import WordLevelTokenizer

GOLDEN = Path(__file__).parent / "golden" / "transformer_xl"
# Every query sees as many keys as any other, so that a text at once gives what steps give.
SAME_LENGTH = ("hf_adaptive", "torch_same_length")


@functools.cache
def golden(case: str) -> CausalLM:
    return bert_zoo.load(GOLDEN / case, task="causal_lm")


@functools.cache
def random_model(tokenizer=None, **changes) -> CausalLM:
    """A model that no test changes; with one layer where it is about texts."""
    keras.utils.set_random_seed(7)
    config = {
        "vocab_size": tokenizer.vocab_size if tokenizer else 11,
        "hidden_size": 16,
        "num_layers": 1 if tokenizer else 2,
        "num_heads": 2,
        "head_size": 8,
        "intermediate_size": 32,
        "mem_len": 64,
        "memory_start": "empty",
        "initializer_range": 0.4,
        **changes,
    }
    reader = LanguageModelPreprocessor(tokenizer, sequence_length=64) if tokenizer else None
    config = RecurrentConfig(**config)
    return CausalLM(Encoder(config, "transformer_xl", preprocessor=reader))


@functools.cache
def characters(eos: bool = False) -> WordLevelTokenizer:
    symbols = ["_", *"abcdefghij", *(["<eos>"] if eos else [])]
    return WordLevelTokenizer(
        symbols,
        unit="character",
        unknown_token=None,
        eos_token="<eos>" if eos else None,
        space_token="_",
    )


@functools.cache
def words(eos_at: str = "newlines") -> WordLevelTokenizer:
    return WordLevelTokenizer(["<eos>", "<unk>", *"a b c d e f g h".split()], eos_at=eos_at)


@functools.cache
def byte_symbols() -> WordLevelTokenizer:
    held = sorted({*"aé€".encode(), ord(" ")})
    symbols = [str(byte) for byte in held]
    return WordLevelTokenizer(symbols, unit="byte", unknown_token=None, eos_token=None)


def ids(vocab_size: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, vocab_size, shape).astype("int32")


def all_at_once(model, token_ids: np.ndarray) -> np.ndarray:
    """Log-probabilities [batch, length, vocabulary] of one segment."""
    return ops.convert_to_numpy(model({"token_ids": token_ids}, training=False)["log_probs"])


def assert_greedy(model, found: np.ndarray, given: int) -> None:
    """Every token after the first `given` is the likeliest after all of those before it."""
    best = all_at_once(model, found).argmax(axis=-1)
    assert np.array_equal(found[:, given:], best[:, given - 1 : -1])


def new_log_probs(model, token_ids: np.ndarray, given: int) -> np.ndarray:
    """Of each row's tokens after the first `given`, [batch, tokens]."""
    log_probs = all_at_once(model, token_ids)[:, given - 1 : -1]
    return np.take_along_axis(log_probs, token_ids[:, given:, None], axis=2)[..., 0]


def every_continuation(row: np.ndarray, number: int) -> np.ndarray:
    """The row with every possible choice of `number` further tokens."""
    new = np.array(list(itertools.product(range(11), repeat=number)))
    return np.concatenate([np.repeat(row[None], len(new), 0), new], axis=1).astype("int32")


# --- Generating ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", SAME_LENGTH)
def test_greedy_is_the_argmax_of_recomputing_everything_beyond_the_memory_too(case):
    model = golden(case)
    prompt = ids(50, 2, 13)
    found = model.generate({"token_ids": prompt}, max_new_tokens=12, stop=None)
    assert found.dtype == np.int32 and found.shape[1] == 25 > 2 * model.encoder.config.mem_len
    assert np.array_equal(found[:, :13], prompt)
    assert_greedy(model, found, given=13)


@pytest.mark.parametrize(("memory_start", "side"), [("zeros", "left"), ("empty", "right")])
def test_each_row_of_a_batch_has_the_state_and_the_tokens_that_it_has_alone(memory_start, side):
    model = random_model(memory_start=memory_start, mem_len=9)
    rows = [ids(11, length, seed=length) for length in (1, 4, 17, PIECE + 6)]
    longest = max(map(len, rows))
    padding = [np.zeros(longest - len(row), "int32") for row in rows]

    def padded(rows, padding):
        pairs = zip(rows, padding, strict=True)
        parts = [(pad, row) if side == "left" else (row, pad) for row, pad in pairs]
        return np.array([np.concatenate(part) for part in parts])

    prompt = {
        "token_ids": padded(rows, padding),
        "padding_mask": padded([np.ones_like(row) for row in rows], padding),
    }
    together = model.generate(prompt, max_new_tokens=6)[:, longest:]
    state = read_prompts(model, rows)
    for number, row in enumerate(rows):
        alone = model.generate({"token_ids": row[None]}, max_new_tokens=6)
        assert np.array_equal(together[number], alone[0, len(row) :])
        own = read_prompts(model, [row])
        assert np.array_equal(state["memory_mask"][number], own["memory_mask"][0])
        real = ops.convert_to_numpy(own["memory_mask"][0]) > 0
        for layer, wanted in zip(state["memory"], own["memory"], strict=True):
            layer, wanted = (ops.convert_to_numpy(m) for m in (layer[number], wanted[0]))
            np.testing.assert_allclose(layer[real], wanted[real], atol=1e-5)


@pytest.mark.parametrize("case", SAME_LENGTH)
def test_a_prompt_read_in_pieces_leaves_the_memory_of_one_segment(case, monkeypatch):
    model, row = golden(case), ids(50, 23)
    wanted = model({"token_ids": row[None]}, training=False)
    monkeypatch.setattr("bert_zoo.tasks.causal_lm.PIECE", 5)
    state = read_prompts(model, [row])
    for found, layer in zip(state["memory"], wanted["memory"], strict=True):
        np.testing.assert_allclose(found, layer, atol=1e-5)


def test_one_beam_is_greedy_and_more_find_the_likeliest_text():
    model, prompt = random_model(), {"token_ids": ids(11, 2, 4, seed=3)}
    greedy = model.generate(prompt, max_new_tokens=8)
    one = model.generate(prompt, max_new_tokens=8, beams=1)
    assert np.array_equal(one, greedy)
    # As many beams as there are beginnings leave nothing out.
    found = model.generate(prompt, max_new_tokens=3, beams=121)
    theirs = samplers.BeamSampler(num_beams=121)
    assert np.array_equal(found, model.generate(prompt, max_new_tokens=3, sampler=theirs))
    for row, given in zip(found, prompt["token_ids"], strict=True):
        every = every_continuation(given, 3)
        totals = new_log_probs(model, every, given=4).sum(axis=1)
        assert np.array_equal(row, every[totals.argmax()])
    five = model.generate(prompt, max_new_tokens=8, sampler="beam")
    totals = (new_log_probs(model, rows, given=4).sum(axis=1) for rows in (greedy, five))
    assert np.all(np.less_equal(*totals))


@pytest.mark.parametrize("sampler", ["greedy", "top_k", "top_p", "random"])
def test_a_stream_is_the_text_of_the_same_seed(sampler):
    model = random_model(characters())
    options = {"sampler": sampler, "seed": 5, "max_new_tokens": 25}
    prompts = ["abc d", "f", "a b c d e f g h"]
    whole = model.generate(prompts, **options)
    pieces = list(model.generate(prompts, stream=True, **options))
    assert pieces[0] == prompts
    assert len(pieces) == 26
    assert ["".join(row) for row in zip(*pieces, strict=True)] == whole
    assert "".join(model.generate("abc d", stream=True, **options)) == model.generate(
        "abc d", **options
    )
    ids_in = {"token_ids": ids(11, 2, 3)}
    streamed = list(model.generate(ids_in, stream=True, **options))
    assert [piece.shape for piece in streamed] == [(2, 3)] + [(2, 1)] * 25
    assert np.array_equal(np.concatenate(streamed, axis=1), model.generate(ids_in, **options))


def test_seeds_repeat_a_text_and_differ_from_one_another():
    model = random_model(characters())
    texts = [model.generate("abc", sampler="random", seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    unseeded = {model.generate("abc", sampler="random") for _ in range(3)}
    assert len(unseeded) > 1, "those that share a sampler draw for themselves"
    sampler = samplers.RandomSampler(seed=1)
    assert model.generate("abc", sampler=sampler) == texts[0]
    assert model.generate("abc", sampler=sampler) != texts[0]


def test_texts_end_before_the_end_token_and_batches_go_on_until_all_have():
    model = random_model(words())
    prompts = ["a b c", "d", "e f g h a b"]
    options = {"sampler": "random", "seed": 2, "max_new_tokens": 60}
    free = model.generate(prompts, stop=None, **options)
    wanted = [text.split("\n")[0] for text in free]
    lengths = [len(text.split()) - len(p.split()) for text, p in zip(wanted, prompts, strict=True)]
    assert len(set(lengths)) == 3 and max(lengths) < 60, "the case must end rows at different steps"
    assert model.generate(prompts, **options) == wanted
    pieces = list(model.generate(prompts, stream=True, **options))
    assert ["".join(row) for row in zip(*pieces, strict=True)] == wanted
    assert len(pieces) == 1 + max(lengths) + 1, "the prompts, the tokens and the end token"


def test_stops_are_tokens_or_ids():
    model = random_model(words())
    options = {"sampler": "random", "seed": 2, "max_new_tokens": 60}
    free = model.generate("a b", stop=None, **options)
    first, second = list(dict.fromkeys(free.split()[2:]))[1:3]
    wanted = free[: free.index(first, 3)].rstrip()
    assert len(wanted) > len("a b")
    for stop in ([second, first], [words().token_to_id(first)]):
        assert model.generate("a b", stop=stop, **options) == wanted


def test_a_stop_in_the_prompt_does_not_stop():
    model = random_model(words())
    text = model.generate("a\nb\n", stop=["a", "<eos>"], max_new_tokens=1, sampler="beam")
    assert text.startswith("a\nb\n")
    rows = model.generate({"token_ids": np.array([[2, 0]])}, stop=[0, 2], max_new_tokens=3)
    assert rows.shape[1] > 2


def test_empty_prompts_start_from_the_end_token_or_say_what_to_pass():
    model = random_model(words())
    rows = model.generate({"token_ids": np.array([[0]])}, max_new_tokens=5, stop=None)
    spelled = words().detokenize(rows[:, 1:]).numpy()[0].decode()
    assert model.generate("", max_new_tokens=5, stop=None) == spelled
    assert "".join(model.generate("", max_new_tokens=5, stop=None, stream=True)) == spelled


def test_prompts_stay_open_where_a_tokenizer_ends_every_line():
    wanted = {"a b": [[2, 3]], "a b\n": [[2, 3, 0]]}
    for prompt, rows in wanted.items():
        model = random_model(words("line_ends"))
        options = {"max_new_tokens": 5, "stop": None}
        found = model.generate({"token_ids": np.array(rows)}, **options)
        assert model.generate(prompt, **options) == words().detokenize(found).numpy()[0].decode()


def test_streams_of_bytes_hold_back_halves_of_characters():
    model = random_model(byte_symbols(), initializer_range=0.1)
    options = {"sampler": "random", "seed": 2, "max_new_tokens": 60}
    whole = model.generate("aé€", **options)
    pieces = list(model.generate("aé€", stream=True, **options))
    assert whole.startswith("aé€") and "".join(pieces) == whole
    assert "" in pieces


def test_streams_hold_back_halves_of_characters_of_several_tokens():
    roles = ("unknown", "padding", "cls", "sep", "mask")
    no_specials = {f"{role}_token": None for role in roles}
    model = random_model(ByteBpeTokenizer([*ALPHABET, "ab"], [("a", "b")], **no_specials))
    new = model.preprocessor.tokenizer(["é€🙂"]).numpy()[0]
    assert len(new) > 3, "the case must have characters of several tokens"
    pieces = list(TextPrompts(model, "a", ()).pieces(new[:, None]))
    assert "".join(pieces) == "aé€🙂"
    assert "" in pieces


def test_results_print_well():
    texts = random_model(characters()).generate(["a", "b"], max_new_tokens=3)
    assert texts[0] == str(texts[0]) and texts == list(texts)
    assert str(texts) == repr(texts) == f"[0] {texts[0]}\n\n[1] {texts[1]}"


def test_the_vocabulary_is_read_at_one_position_a_step_and_at_none_of_the_prompt(monkeypatch):
    model = CausalLM(random_model().encoder)
    lengths = []
    original = model.softmax.logits
    monkeypatch.setattr(
        model.softmax, "logits", lambda x, *rest: lengths.append(x.shape[1]) or original(x, *rest)
    )
    model.generate({"token_ids": ids(11, 2, 30)}, max_new_tokens=4)
    assert set(lengths) == {1}


def test_steps_are_traced_once_for_a_batch():
    model = CausalLM(random_model().encoder)
    for length in (3, 9, 20):
        prompt = {"token_ids": ids(11, 2, length)}
        model.generate(prompt, max_new_tokens=length, sampler="top_k")
        list(model.generate(prompt, max_new_tokens=2, stream=True))
    # Prompts read, tokens filled in, a step, and its choice.
    assert len(model.graphs._graphs) == 4


def generate(prompt, **options):
    return lambda: random_model(words()).generate(prompt, **options)


@refusals(
    (generate("a", max_new_tokens=0), "max_new_tokens is 0"),
    (generate("a", sampler="best"), "no sampler 'best' | greedy"),
    (generate("a", sampler=samplers.ContrastiveSampler()), "other than Contrastive"),
    (generate("a", sampler=3), "sampler is 3"),
    (generate("a", sampler=samplers.GreedySampler(), seed=1), "seed=1 only applies"),
    (generate("a", sampler=samplers.BeamSampler(return_all_beams=True)), "one text"),
    (generate("a", sampler="beam", stream=True), "BeamSearch | cannot stream"),
    (generate("a", temperature=0.5), "'greedy' does not | top_p"),
    (generate("a", temperature=-1, sampler="top_p"), "temperature is -1"),
    (generate("a", temperature=True, sampler="top_p"), "temperature is True"),
    (generate("a", temperature=2, sampler=samplers.TopKSampler()), "TopKSampler instead"),
    (generate("a", beams=0), "beams is 0"),
    (generate("a", length_penalty="long"), "length_penalty is 'long'"),
    (generate("a", top_p=1.5), "top_p is 1.5"),
    (generate("a", beams=2, sampler="greedy"), "beams=2 is for the sampler 'beam'"),
    (generate("a", beams=2, top_p=0.5), "top_p=0.5 is for | sampler is 'beam'"),
    (generate("a", stop="b"), "stop is 'b'"),
    (generate("a", stop=["zebra"]), "zebra"),
    (generate("a", stop=[99]), "99"),
    (generate(["a", 3]), "prompt[1] is 3"),
    (generate({"ids": [[1]]}), "dict of token_ids"),
    (generate({"token_ids": [1, 2]}), "batch, length"),
    (generate({"token_ids": [[1], [1, 2]]}), "different lengths"),
    (generate({"token_ids": [[1.5]]}), "integers"),
    (generate({"token_ids": [[1, 99]]}), "token_ids[0, 1] is 99"),
    (generate({"token_ids": [[1]], "padding_mask": [[0]]}), "Row 0 | no token"),
    (generate({"token_ids": [[1, 2]], "padding_mask": [[1]]}), "must have the same shape"),
    (lambda: random_model(characters()).generate(""), "prompt is empty | no end token"),
    (
        lambda: random_model(mem_len=0).generate({"token_ids": [[1]]}),
        "mem_len is 0 | mem_len=512",
    ),
    (lambda: random_model(characters()).score(["abc", "a"]), "texts[1] is 'a' | no token"),
    (lambda: random_model(words()).score([""]), "texts[0] is ''"),
    (lambda: random_model(words()).score("a", segment_length=0), "segment_length is 0"),
)
def test_what_does_not_fit_is_refused_at_the_call(call, words):
    assert_refused(call, words)


@pytest.mark.parametrize(
    ("own", "ours", "as_greedy"),
    [
        (samplers.RandomSampler(temperature=5, seed=4), {"temperature": 5}, {"sampler": "top_p"}),
        (samplers.TopPSampler(p=0.9, seed=4), {"top_p": 0.9}, {"top_p": 0.9}),
    ],
    ids=["temperature", "top_p"],
)
def test_temperature_and_top_p_are_those_of_the_samplers_and_0_is_greedy(own, ours, as_greedy):
    model, prompt = random_model(), {"token_ids": ids(11, 2, 4, seed=3)}
    generated = functools.partial(model.generate, prompt, max_new_tokens=12)
    sampler = {"sampler": "random" if "temperature" in ours else "top_p", "seed": 4}
    found = generated(**sampler, **ours)
    assert np.array_equal(found, generated(sampler=own))
    assert np.array_equal(np.concatenate([*generated(**sampler, **ours, stream=True)], 1), found)
    assert not np.array_equal(found, generated(**sampler))
    assert np.array_equal(generated(temperature=0, **as_greedy), generated())


# --- Scoring -------------------------------------------------------------------------------------


@functools.cache
def with_vocabulary(case: str) -> CausalLM:
    """A golden model that reads 50 characters, the first of which is an end token."""
    symbols = ["<eos>", *map(chr, range(ord("A"), ord("A") + 49))]
    tokenizer = WordLevelTokenizer(symbols, unit="character", unknown_token=None)
    model = bert_zoo.load(GOLDEN / case, task="causal_lm")
    model.encoder._preprocessor = LanguageModelPreprocessor(tokenizer, sequence_length=8)
    return model


@pytest.mark.parametrize("case", SAME_LENGTH)
@pytest.mark.parametrize("segment_length", [3, 7, 128])
def test_scores_of_segments_are_those_of_the_text_at_once(case, segment_length):
    model = with_vocabulary(case)
    texts = ["".join(map(chr, ids(49, length, seed=length) + 65)) for length in (40, 1, 25)]
    found = model.score(texts, batch_size=2, segment_length=segment_length)
    assert [row.text for row in found] == texts
    for row, text in zip(found, texts, strict=True):
        token_ids = np.array([[0, *(ord(c) - 64 for c in text)]], "int32")
        log_probs = all_at_once(model, token_ids)[0, :-1]
        wanted = log_probs[np.arange(len(text)), token_ids[0, 1:]]
        assert row.tokens == tuple(text)
        assert row.log_probs.shape == (len(text),)
        np.testing.assert_allclose(row.log_probs, wanted, atol=1e-5)
        np.testing.assert_allclose(row.perplexity, np.exp(-wanted.mean()), rtol=1e-5)
        np.testing.assert_allclose(row.bits_per_character, -wanted.mean() / np.log(2), rtol=1e-5)


def test_scores_are_in_the_order_of_the_texts_whatever_the_batch():
    model = random_model(words(), memory_start="zeros")
    texts = ["a b c d", "e", "f g\nh", "a a a a a a a a"]
    one, all_ = (model.score(texts, batch_size=size) for size in (1, 8))
    assert [row.text for row in all_] == texts
    assert all_[2].tokens == ("f", "g", "<eos>", "h")
    for a, b in zip(one, all_, strict=True):
        np.testing.assert_allclose(a.log_probs, b.log_probs, atol=1e-5)


# Without an end token, the first word has no score.
@pytest.mark.parametrize(
    ("tokenizer", "text", "tokens", "scored"),
    [
        (words(), "a b\nzebra", ("a", "b", "<eos>", "<unk>"), "a b\nzebra"),
        (WordLevelTokenizer(["<unk>", "a", "b"], eos_token=None), "zebra a b", ("a", "b"), "a b"),
    ],
)
def test_bits_of_words_count_the_characters_of_what_is_scored(tokenizer, text, tokens, scored):
    (row,) = random_model(tokenizer).score(text)
    assert row.tokens == tokens
    wanted = -row.log_probs.sum() / math.log(2) / len(scored)
    assert row.bits_per_character == pytest.approx(wanted, rel=1e-6)


def test_scores_print_as_a_table():
    scores = random_model(words()).score(["a b\nc", "d " * 100])
    heading, first, second = str(scores).split("\n")
    assert heading.split() == ["perplexity", "bits/character", "tokens", "text"]
    row = scores[0]
    assert first.split() == [
        *(f"{row.perplexity:.2f}", f"{row.bits_per_character:.3f}", "4", "a", "b", "c")
    ]
    assert second.endswith("…") and repr(scores) == str(scores)
    assert str(row).split() == first.split()
