"""Options of generation: tokens of transformers, defaults that checkpoints say, and what is refused."""

import functools
import itertools
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from helpers import assert_refused, refusals, slow_but
from keras import ops
from keras_hub import samplers

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.generation_config import IDS, SETTINGS, GenerationConfig
from bert_zoo.json_files import JsonObject
from bert_zoo.tasks.generation import Generation, spelled_words
from bert_zoo.tasks.logits import LogitsProcessor, of_top_k, of_top_p
from bert_zoo.tasks.sampling import BeamSearch, highest

GOLDEN = Path(__file__).parent / "golden"
TOLD = json.loads((GOLDEN / "generation.json").read_text(encoding="utf-8"))
NEW_TOKENS = 16
CASES = {f"greedy {name}": options for name, options in TOLD["greedy_and_beams"].items()}
for _name, _options in (TOLD["greedy_and_beams"] | TOLD["beams_alone"]).items():
    CASES[f"beams {_name}"] = TOLD["beams"] | _options
# All options at once, greedy and with beams; the others are slow.
QUICK = ("greedy together", "beams together_early")
SOURCES = ["the cat sat on the big tree .", "we", "a river"]
TASKS = {"gpt2/causal_lm": "causal_lm", "t5/text_to_text_gated": "text_to_text"}
SUMMARY = {
    "task_specific_params": {
        "summarization": {
            "early_stopping": True,
            "length_penalty": 2.0,
            "max_length": 7,
            "min_length": 5,
            "no_repeat_ngram_size": 3,
            "num_beams": 2,
            "prefix": "the ",
        }
    }
}


@functools.cache
def golden(case: str):
    """A model that no test changes."""
    return bert_zoo.load(GOLDEN / case, task=TASKS[case])


@functools.cache
def rows(case: str) -> dict[str, np.ndarray]:
    stored = np.load(GOLDEN / case / "generated_options.npz")
    return {name: stored[name].astype("int32") for name in stored.files}


def inputs(case: str, number: int | None = None) -> dict[str, np.ndarray]:
    return {name: rows(case)[name][:number] for name in ("token_ids", "padding_mask")}


def new_tokens(case: str, found: np.ndarray) -> np.ndarray:
    """The new tokens of ids that `generate` returned, [rows, NEW_TOKENS], 0 after what stops them."""
    given = 0 if TASKS[case] == "text_to_text" else rows(case)["token_ids"].shape[1]
    found = found[:, given:]
    is_stop = np.isin(found, TOLD["models"][case]["stops"])
    found = np.where(np.cumsum(is_stop, axis=1) - is_stop > 0, 0, found)
    return np.pad(found, ((0, 0), (0, NEW_TOKENS - found.shape[1])))


def generated(model, case: str, **options) -> np.ndarray:
    options = {"max_new_tokens": NEW_TOKENS, "stop": TOLD["models"][case]["stops"], **options}
    return new_tokens(case, model.generate(inputs(case), **options))


def directory_with(tmp_path: Path, case: str, **files: Mapping[str, Any]) -> Path:
    """A copy of a golden checkpoint; `files` are added to the keys of a JSON file, or make one."""
    directory = tmp_path / "model"
    directory.mkdir()
    for path in (GOLDEN / case).iterdir():
        if path.suffix != ".npz" and path.name != "generation_config.json":
            (directory / path.name).write_bytes(path.read_bytes())
    for name, values in files.items():
        path = directory / f"{name}.json"
        told = json.loads(path.read_text()) if path.is_file() else {}
        path.write_text(json.dumps(told | dict(values)))
    return directory


# --- Tokens of transformers ----------------------------------------------------------------------


@pytest.mark.parametrize("name", slow_but(CASES, *QUICK))
@pytest.mark.parametrize("case", TASKS)
def test_tokens_are_those_of_transformers(case, name):
    assert np.array_equal(generated(golden(case), case, **CASES[name]), rows(case)[name])


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("case", slow_but(TASKS, "gpt2/causal_lm"))
def test_a_directorys_settings_are_the_defaults_and_arguments_go_before_them(case, tmp_path):
    options = CASES["beams together_early"]
    said = {**options, "eos_token_id": TOLD["models"][case]["stops"], "max_new_tokens": NEW_TOKENS}
    directory = directory_with(tmp_path, case, generation_config=said)
    model = bert_zoo.load(directory, task=TASKS[case])
    wanted = rows(case)["beams together_early"]
    by_default = functools.partial(model.generate, inputs(case))
    assert np.array_equal(new_tokens(case, by_default()), wanted)
    nothing = {"min_new_tokens": 0, "no_repeat_ngram_size": 0, "repetition_penalty": 1.0}
    found = by_default(**nothing, num_beams=1, num_return_sequences=1)
    assert np.array_equal(new_tokens(case, found), rows(case)["greedy nothing"])
    for format in ("hf", "bert_zoo"):
        bert_zoo.save(model, tmp_path / format, format=format)
        again = bert_zoo.load(tmp_path / format, task=TASKS[case]).generation_config.to_dict()
        assert again == again | model.generation_config.to_dict()
    written = json.loads((tmp_path / "hf" / "generation_config.json").read_text())
    assert {name: written[name] for name in said} == said
    copy = type(model).from_config(model.get_config())
    assert copy.generation_config == model.generation_config


def test_config_json_says_the_settings_where_there_is_no_other_file(tmp_path):
    case = "gpt2/causal_lm"
    told = {"num_beams": 4, "length_penalty": 1.5, "no_repeat_ngram_size": 3}
    model = bert_zoo.load(directory_with(tmp_path, case, config=told), task="causal_lm")
    found = model.generation_config.to_dict()
    assert {name: found[name] for name in told} == told
    (tmp_path / "model" / "generation_config.json").write_text("{}")
    again = bert_zoo.load(tmp_path / "model", task="causal_lm")
    assert again.generation_config.num_beams is None


def test_settings_are_chosen_by_name_with_their_prefix(tmp_path):
    case = "t5/text_to_text_gated"
    directory = directory_with(tmp_path, case, config=SUMMARY)
    model = bert_zoo.load(directory, task="text_to_text")
    texts = SOURCES[:2]
    options = dict(SUMMARY["task_specific_params"]["summarization"])
    prefix = options.pop("prefix")
    wanted = model.generate([prefix + text for text in texts], **options)
    assert model.generate(texts, settings="summarization") == wanted
    assert model.generate(texts[1], settings="summarization") == wanted[1]
    for given, name, words in (
        ({"token_ids": [[5, 1]]}, "summarization", "pass texts; these are ids"),
        (texts, "sum", "settings is 'sum'; this model has 'summarization'"),
    ):
        assert_refused(functools.partial(model.generate, given, settings=name), words)
    bert_zoo.save(model, tmp_path / "hf", format="hf")
    again = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert again["task_specific_params"] == SUMMARY["task_specific_params"]


@pytest.mark.usefixtures("eager")
def test_targets_start_with_the_token_that_the_checkpoint_says(tmp_path):
    case = "t5/text_to_text_gated"
    plain, source = golden(case), inputs(case, 6)
    directory = directory_with(tmp_path, case, config={"decoder_start_token_id": 20})
    model = bert_zoo.load(directory, task="text_to_text")
    wanted = plain.generate(source, forced_bos_token_id=20, max_new_tokens=8, stop=None)
    found = model.generate(source, max_new_tokens=7, stop=None)
    assert not np.array_equal(found, plain.generate(source, max_new_tokens=7, stop=None))
    logits = model(
        {**source, "decoder_token_ids": np.pad(found, [(0, 0), (1, 0)], constant_values=20)}
    )
    logits = np.array(logits)[:, :7]
    logits[:, :, [0, *range(90, 98)]] = -np.inf
    assert np.array_equal(logits.argmax(-1), found), wanted
    labels = np.array([[5, 6, -100]])
    assert np.array_equal(model._decoder_inputs(labels)["decoder_token_ids"], [[20, 5, 6]])
    bert_zoo.save(model, tmp_path / "hf", format="hf")
    for file in ("config.json", "generation_config.json"):
        assert json.loads((tmp_path / "hf" / file).read_text())["decoder_start_token_id"] == 20


@pytest.mark.usefixtures("eager")
def test_what_a_directory_says_and_generate_does_not_know_is_logged_once(tmp_path, caplog):
    said = {"typical_p": 0.9, "renormalize_logits": False, "use_cache": True, "my_option": 1}
    directory = directory_with(tmp_path, "gpt2/causal_lm", generation_config=said)
    with caplog.at_level(logging.WARNING, logger="bert_zoo"):
        model = bert_zoo.load(directory, task="causal_lm")
        model.generate({"token_ids": [[5]]}, max_new_tokens=1)
        bert_zoo.load(directory)
    (message,) = [r.getMessage() for r in caplog.records if "does not support" in r.getMessage()]
    assert "generation_config.json" in message
    assert "typical_p (= 0.9), my_option (= 1)." in message


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"num_beams": 3, "no_repeat_ngram_size": 2, "repetition_penalty": 1.3, "min_new_tokens": 6},
        {"repetition_penalty": 1.3, "prefix": "the "},
    ],
)
def test_a_saved_model_generates_with_the_models_settings(options, tmp_path):
    model = bert_zoo.load(GOLDEN / "t5/text_to_text_gated", task="text_to_text")
    plain = model.generate(SOURCES, max_new_tokens=8)
    settings = {**options, "max_length": 9, "bad_words_ids": [[62]], "num_return_sequences": 1}
    model.generation_config = GenerationConfig(**settings)
    wanted = model.generate(SOURCES)
    bert_zoo.export(model, tmp_path / "saved")
    served = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"]
    found = served(text=tf.constant(SOURCES))["generated_text"].numpy()
    assert [text.decode() for text in found] == wanted != plain


@pytest.mark.slow
@pytest.mark.parametrize("beams", [1, 3])
def test_a_saved_model_draws_other_texts_at_each_run(beams, tmp_path):
    model = bert_zoo.load(GOLDEN / "t5/text_to_text_gated", task="text_to_text")
    model.generation_config = GenerationConfig(do_sample=True, num_beams=beams, max_length=12)
    bert_zoo.export(model, tmp_path / "saved")
    served = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"]
    runs = {served(text=tf.constant(SOURCES[:1]))["generated_text"].numpy()[0] for _ in range(4)}
    assert len(runs) > 1


# --- Texts ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("eager")
def test_bad_words_are_not_written_in_their_usual_tokens():
    model = golden("t5/text_to_text_gated")
    tokenizer, source = model.preprocessor.tokenizer, {"token_ids": [[20, 30, 1], [40, 7, 1]]}
    options = {"max_new_tokens": 9, "stop": None}
    free = model.generate(source, **options)
    tokens = {int(i): tokenizer.id_to_token(int(i)) for i in free.ravel()}
    words = {i: token[1:] for i, token in tokens.items() if token.startswith("▁") and token[1:]}
    assert words
    found = model.generate(source, bad_words=[*words.values()], **options)
    assert not {*words} & {*found.ravel().tolist()}


def test_words_are_barred_at_the_start_and_after_a_blank():
    model = golden("gpt2/causal_lm")
    spelled = spelled_words(model, ["cat"])
    tokenizer = model.preprocessor.tokenizer
    texts = {tokenizer.detokenize([[*ids]]).numpy()[0].decode() for ids in spelled}
    assert texts == {"cat", " cat"}


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "options",
    [pytest.param({"num_beams": 4}, marks=pytest.mark.slow), {"do_sample": True, "seed": 3}],
)
def test_several_texts_of_a_prompt_follow_each_other(options):
    model = golden("t5/text_to_text_gated")
    options = {"max_new_tokens": 4, "num_return_sequences": 3, **options}
    found = model.generate(SOURCES, batch_size=2, **options)
    assert len(found) == 9 and len({*found[:3]}) == 3
    alone = model.generate(SOURCES[0], **options)
    assert isinstance(alone, list) and len(alone) == 3
    if "num_beams" in options:
        assert alone == found[:3]
    prompts = {"token_ids": [[5, 6], [7, 8]]}
    ids = golden("gpt2/causal_lm").generate(prompts, **options)
    assert np.array_equal(ids[:, :2], np.repeat(prompts["token_ids"], 3, axis=0))


# --- Drawing -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_drawing_without_chance_is_the_search_without_it():
    case = "gpt2/causal_lm"
    model, prompt = golden(case), inputs(case, 8)
    for options in ({}, {"num_beams": 3}):
        wanted = model.generate(prompt, max_new_tokens=8, **options)
        for certain in ({"temperature": 0.0}, {"temperature": 1e-4, "top_k": 0}):
            found = model.generate(prompt, max_new_tokens=8, do_sample=True, **certain, **options)
            assert np.array_equal(found, wanted)
    one = model.generate(prompt, max_new_tokens=8, do_sample=True, top_k=1)
    assert np.array_equal(one, model.generate(prompt, max_new_tokens=8))


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_seeds_repeat_drawn_beams_and_differ_from_one_another():
    case = "gpt2/causal_lm"
    options = {"do_sample": True, "num_beams": 3, "max_new_tokens": 8}
    found = [golden(case).generate(inputs(case, 8), seed=seed, **options) for seed in (1, 1, 2)]
    assert np.array_equal(found[0], found[1]) and not np.array_equal(found[0], found[2])


@pytest.mark.usefixtures("eager")
def test_tokens_are_drawn_with_their_probabilities():
    model = golden("gpt2/causal_lm")
    log_probs = np.array(model({"token_ids": np.array([[5, 9]])}, training=False)["log_probs"])
    ids = np.argsort(log_probs[0, -1])[::-1][:4]
    chances = np.exp(log_probs[0, -1, ids].astype("float64"))
    prompt = {"token_ids": np.tile([[5, 9]], (2000, 1))}
    options = {"do_sample": True, "top_k": 4, "max_new_tokens": 1, "seed": 1, "stop": None}
    drawn = model.generate(prompt, num_return_sequences=2, **options)[:, 2]
    shares = (drawn[:, None] == ids).mean(axis=0)
    np.testing.assert_allclose(shares, chances / chances.sum(), atol=0.03)


def test_continuations_of_beams_are_drawn_without_replacement():
    chances = np.array([0.5, 0.3, 0.15, 0.05])
    scores = np.tile(np.log(chances).astype("float32") - 2, (6000, 1))
    search = BeamSearch(2, drawer=samplers.RandomSampler(seed=1))
    found, places = (np.array(each) for each in search._candidates(scores, 2))
    assert np.array_equal(found, np.take_along_axis(scores, places, axis=1))
    assert (places[:, 0] < places[:, 1]).all(), "the likelier one comes first"
    for first, second in itertools.combinations(range(4), 2):
        p, q = chances[[first, second]]
        share = ((places[:, 0] == first) & (places[:, 1] == second)).mean()
        assert share == pytest.approx(p * q / (1 - p) + p * q / (1 - q), abs=0.03)


def test_the_highest_of_many_numbers_are_found_in_blocks_in_the_order_of_equal_ones():
    for length, number in ((300, 3), (129, 3), (1024, 9), (1000, 5)):
        scores = np.random.default_rng(length).integers(-3, 3, (4, length)).astype("float32")
        scores[0, :-1] = -np.inf
        pairs = zip(highest(scores, number), ops.top_k(scores, number), strict=True)
        assert all(np.array_equal(found, wanted) for found, wanted in pairs)


def test_greedy_needs_no_probabilities_and_beams_log_probabilities():
    greedy, beams = (Generation(golden("gpt2/causal_lm"), num_beams=n) for n in (1, 3))
    assert greedy.reads_logits and not beams.reads_logits
    # A softmax in float32 makes these equal.
    scores = np.array([[30.0, 30.000002]], "float32")
    sampler = greedy.sampler
    assert np.array(sampler.get_next_token(sampler.compute_probabilities(scores))) == [1]


def test_the_likeliest_tokens_are_left_to_draw_from():
    scores = np.log([[0.1, 0.5, 0.15, 0.25], [0.97, 0.01, 0.01, 0.01]]).astype("float32")
    kept = np.isfinite(np.array(of_top_k(scores[:1], 2)))
    assert np.array_equal(kept, [[False, True, False, True]])
    kept = np.isfinite(np.array(of_top_p(scores, 0.7)))
    assert np.array_equal(kept, [[False, True, False, True], [True, False, False, False]])
    kept = np.isfinite(np.array(of_top_p(scores[:1], 0.1, keep=3)))
    assert np.array_equal(kept, [[False, True, True, True]])
    assert np.array_equal(LogitsProcessor()(scores, None, 1, 1), scores)


# --- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS)
def test_numbers_of_a_file_are_bounded(name):
    for value in (float("nan"), 10**12, -(10**9), {"x": 1}, [[]]):
        values = JsonObject({name: value}, "generation_config.json")
        read = functools.partial(GenerationConfig.read, (values,), vocab_size=82)
        assert_refused(read, f"generation_config.json: {name} is | must be", ConfigError)


def test_settings_of_a_task_are_bounded_and_ids_are_of_the_vocabulary(tmp_path, caplog):
    told = {"task_specific_params": {"summarization": {"num_beams": 10**9}}}
    directory = directory_with(tmp_path, "gpt2/causal_lm", config=told)
    load = functools.partial(bert_zoo.load, directory, task="causal_lm")
    assert_refused(load, "config.json, task_specific_params, summarization: num_beams", ConfigError)
    assert bert_zoo.load(directory).task == "encoder", "which writes no text"
    (directory / "config.json").write_text((GOLDEN / "gpt2/causal_lm/config.json").read_text())
    for name in IDS:
        value = [[99]] if name == "bad_words_ids" else [99] if "suppress" in name else 99
        (directory / "generation_config.json").write_text(json.dumps({name: value}))
        assert_refused(load, f"{name} has the token id 99; ids must be below 82", ConfigError)
    # transformers writes its own default for models of any vocabulary.
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": 50256}))
    assert load().generation_config.eos_token_id is None
    assert "eos_token_id has 50256, but the vocabulary has 82 tokens" in caplog.text


def generate(**options):
    return lambda: golden("gpt2/causal_lm").generate({"token_ids": [[5, 6]]}, **options)


@refusals(
    (generate(num_beam=4), "no setting 'num_beam' | Did you mean 'num_beams'"),
    (generate(num_beams=4, beams=3), "beams=3 and num_beams=4"),
    (generate(num_beams=4, stream=True), "cannot stream"),
    (generate(num_return_sequences=2), "chooses the same text every time"),
    (generate(num_return_sequences=5, num_beams=4), "keeps 4 beams"),
    (generate(do_sample=True, sampler="greedy"), "do_sample=True does not go with"),
    (generate(do_sample=False, top_p=0.9), "do_sample=False does not go with top_p"),
    (generate(num_beams=4, temperature=0.5), "pass do_sample=True"),
    (generate(bad_words="cat"), "must be a list of texts"),
    (generate(bad_words=[" "]), "must be a list of texts"),
    (generate(bad_words_ids=[[99]]), "bad_words_ids has the token id 99"),
    (generate(max_length=2), "max_length, which counts them, is 2"),
    (generate(settings="summarization"), "this model has 'text-generation'"),
)
def test_options_that_do_not_fit_are_refused(call, words):
    assert_refused(call, words)


def test_ids_of_a_smaller_vocabulary_are_the_same_tokens():
    task = {"summarization": GenerationConfig(bad_words_ids=[[3]], forced_eos_token_id=5)}
    config = GenerationConfig(
        bad_words_ids=[[3, 4], [3]],
        suppress_tokens=[4, 5],
        forced_bos_token_id=3,
        eos_token_id=5,
        num_beams=2,
        task_specific_params=task,
    )
    assert config.needed_ids == {3, 5}
    found = config.renumbered({3: 0, 5: 1})
    assert found.to_dict() == {
        "bad_words_ids": [[0]],
        "suppress_tokens": [1],
        "forced_bos_token_id": 0,
        "eos_token_id": 1,
        "num_beams": 2,
        "task_specific_params": {
            "summarization": {"bad_words_ids": [[0]], "forced_eos_token_id": 1}
        },
    }
    assert GenerationConfig.from_dict(found.to_dict()) == found
