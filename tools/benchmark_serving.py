"""Serving fine-tuned models on a CPU: what each way costs, and what smaller numbers do to the scores.

Run directories of `bert_zoo finetune` are exported in every format; the same weights go to torch, to
ONNX by torch's exporter, and to sentence-transformers. Each of these serves in a process of its own
(references/peers/serve.py), from strings, requests of one text and of 32 in the order of the file.
"""

import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmark_finetuning import PROGRAMS, THREADS_OF

SINGLE_TEXTS = 64
BATCHES, BATCH_SIZE = 8, 32
# Times a process is started for the time to its first answer.
STARTS = 2
HUGGING_FACE = "huggingface"
SCORES_FILE, COSTS_FILE = "scores.json", "costs.json"


@dataclasses.dataclass(frozen=True)
class System:
    """A way to serve a model."""

    title: str
    numbers: str  # the format of weights and products
    kind: str  # of serve.py
    folder: str  # of the export that it serves
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the kind
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)  # of its environment
    is_reference: bool = False  # whether it needs the environment with torch
    is_scored: bool = True

    @property
    def name(self) -> str:
        return f"{self.title}, {self.numbers}"


_torch = partial(System, kind="torch", folder=HUGGING_FACE, is_reference=True)
_from_torch = partial(System, "torch's export in ONNX Runtime", kind="onnx", is_reference=True)
# oneDNN keeps weights as its products want them, which is wrong once they change.
_constant = partial(
    System,
    "the same, weights assumed frozen",
    kind="saved_model",
    variables={"TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1"},
    is_scored=False,
)
BASE = System("bert_zoo, SavedModel", "float32", "saved_model", "saved_model")
TORCH = _torch("Hugging Face in torch", "float32", options={"dtype": "float32"})
SYSTEMS = (
    TORCH,
    _torch("Hugging Face in torch", "bfloat16", options={"dtype": "bfloat16"}),
    _torch("torch.compile", "float32", options={"dtype": "float32", "compiled": True}),
    System(
        "sentence-transformers' encode",
        "float32",
        "sentence_transformers",
        HUGGING_FACE,
        is_reference=True,
        is_scored=False,
    ),
    System("bert_zoo, `classify`", "float32", "keras", "zoo", is_scored=False),
    BASE,
    System("bert_zoo, SavedModel", "bfloat16", "saved_model", "saved_model_bfloat16"),
    _constant(numbers="float32", folder="saved_model"),
    _constant(numbers="bfloat16", folder="saved_model_bfloat16"),
    System("bert_zoo, ONNX Runtime", "float32", "runtime", "onnx"),
    System("bert_zoo, ONNX Runtime", "int8", "runtime", "onnx_int8"),
    System("bert_zoo, LiteRT", "float32", "runtime", "litert"),
    System("bert_zoo, LiteRT", "float16", "runtime", "litert_float16"),
    System("bert_zoo, LiteRT", "int8", "runtime", "litert_int8"),
    _from_torch("float32", folder="torch_onnx"),
    _from_torch("int8", folder="torch_onnx_int8"),
)


class Server:
    """A process that serves; `ask` gives what serve.py answers."""

    def __init__(self, system: System, python: str, directory: Path, threads: int, **options: bool):
        self.system = system
        self._process = subprocess.Popen(
            [
                *(python, str(PROGRAMS / "serve.py"), system.kind, str(directory), str(threads)),
                json.dumps({**system.options, **options}),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | dict.fromkeys(THREADS_OF, str(threads)) | dict(system.variables),
        )

    def ask(self, requests: Sequence[Sequence[Sequence[str]]]) -> dict[str, Any]:
        print(json.dumps({"requests": requests}), file=self._process.stdin, flush=True)
        # Libraries print too.
        for line in self._process.stdout:
            if line.startswith('{"seconds"'):
                return json.loads(line)
        raise RuntimeError(f"{self.system.name} stopped with code {self._process.wait()}.")

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


class Bench:
    """Runs, their exports and the servers of both.

    Args:
        runs: directories that `bert_zoo finetune` wrote; the first one's texts are timed.
        directory: where exports, scores and costs are kept; what is there is not made again, so that
            costs can be measured on a quiet machine and scores on a busy one.
        reference_python: Python with torch, transformers, onnx, onnxruntime and sentence-transformers;
            without it, our systems alone are measured.
        threads: of every implementation.
    """

    def __init__(
        self, runs: Sequence[str], directory: Path, reference_python: str | None, threads: int
    ):
        from bert_zoo.cli.benchmarks import make_task
        from bert_zoo.cli.finetuning import CONFIG, read_json

        self.runs = [Path(run) for run in runs]
        self.directory = directory
        self.reference_python = reference_python
        self.threads = threads
        self.systems = [s for s in SYSTEMS if reference_python or not s.is_reference]
        configs = [read_json(run / CONFIG) for run in self.runs]
        self.tasks = [make_task(**config["data"]) for config in configs]

    def server(self, number: int, system: System) -> Server:
        python = self.reference_python if system.is_reference else sys.executable
        options = {"questions": True} if self._asks_questions(number) else {}
        return Server(system, python, self.exported(number, system), self.threads, **options)

    def _asks_questions(self, number: int) -> bool:
        from bert_zoo.tasks import QuestionAnswerer

        return self.tasks[number].kind == QuestionAnswerer.task

    # --- Exports ---

    def exported(self, number: int, system: System) -> Path:
        """Where the model of a run is in a system's format."""
        target = self.directory / self.runs[number].name / system.folder
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            unfinished = target.with_name(f"{target.name}.part")
            shutil.rmtree(unfinished, ignore_errors=True)
            self._export(number, system, unfinished)
            unfinished.rename(target)
        return target

    def _export(self, number: int, system: System, target: Path) -> None:
        import bert_zoo

        source = self.runs[number] / "model"
        format, _, numbers = system.folder.partition("_")
        if system.folder == HUGGING_FACE:
            bert_zoo.save(bert_zoo.load(source, dtype="float32"), target, format="hf")
        elif format == "zoo":
            shutil.copytree(source, target)
        elif system.is_reference:
            written = self.exported(number, TORCH)
            quantize = ["int8"] if system.numbers == "int8" else []
            program = str(PROGRAMS / "export_onnx.py")
            command = [self.reference_python, program, str(written), str(target), *quantize]
            subprocess.run(command, check=True)
        elif system.kind == "saved_model":
            bert_zoo.export(bert_zoo.load(source, dtype=system.numbers), target)
        else:
            model = bert_zoo.load(source, dtype="float32")
            bert_zoo.export(model, target, format=format, quantize=numbers or None)

    # --- Scores ---

    def scores(self) -> dict[str, dict[str, float]]:
        """System -> run -> the first metric of its task, on all of the measured split, in per cent."""
        file = self.directory / SCORES_FILE
        found = json.loads(file.read_text()) if file.exists() else {}
        scored = [system for system in self.systems if system.is_scored]
        for number, run in enumerate(self.runs):
            for system in scored:
                of_system = found.setdefault(system.name, {})
                if run.name in of_system:
                    continue
                of_system[run.name] = self._score(number, system)
                print(f"  {run.name}, {system.name}: {of_system[run.name]:.2f}", flush=True)
                file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        return found

    def _score(self, number: int, system: System) -> float:
        from bert_zoo.metrics import squad_v2

        task = self.tasks[number]
        data = task.data(task.measured[0])
        server = self.server(number, system)
        answers = server.ask(requests_of(self.columns(number), BATCH_SIZE))["answers"]
        server.close()
        if not self._asks_questions(number):
            return 100 * next(iter(task.metric(data.labels, np.array(answers)).values()))
        ids = [example.id for example in data.examples]
        references = {e.id: [answer.text for answer in e.answers] for e in data.examples}
        spans, odds = (dict(zip(ids, part, strict=True)) for part in zip(*answers, strict=True))
        return squad_v2(references, spans, odds)["best_f1"]

    def columns(self, number: int) -> list[list[str]]:
        """The measured split's texts, as serve.py takes them."""
        task = self.tasks[number]
        data = task.data(task.measured[0])
        if self._asks_questions(number):
            return [[e.question for e in data.examples], [e.context for e in data.examples]]
        return [*map(list, data.texts)] if isinstance(data.texts, tuple) else [list(data.texts)]

    # --- Costs ---

    def costs(self, rounds: int) -> dict[str, dict[str, Any]]:
        """System -> what it costs to serve the first run's model; times of every round.

        `first` are seconds from the start of a process to its first answer, `first_call` those after
        imports and loading, `single` milliseconds a text in requests of one, `batch` texts a second in
        requests of 32, `memory` the peak of a process after its first requests, `size` that of the
        files; both in bytes. Kept after each start of all systems and after each round: a measurement
        that was stopped goes on.
        """
        file = self.directory / COSTS_FILE
        found = json.loads(file.read_text()) if file.exists() else self._sizes()
        counts = found[self.systems[0].name]
        if len(counts["single"]) >= rounds:
            return found

        def keep() -> None:
            file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")

        [texts] = self.columns(0)
        singles = requests_of([texts[:SINGLE_TEXTS]], 1)
        batches = requests_of([texts[: BATCHES * BATCH_SIZE]], BATCH_SIZE)
        servers: list[Server] = []
        for _ in range(max(1, STARTS - len(counts["first"]))):
            for server in servers:
                server.close()
            servers = []
            for system in self.systems:
                start = time.perf_counter()
                servers.append(self.server(0, system))
                answered = servers[-1].ask(singles[:1])
                found[system.name]["first"].append(time.perf_counter() - start)
                found[system.name]["first_call"].append(answered["seconds"])
            keep()
        for server in servers:  # shapes are new to it
            server.ask(singles)
            found[server.system.name]["memory"] = server.ask(batches)["memory"]
        while len(counts["single"]) < rounds:
            for server in servers:
                of_system = found[server.system.name]
                single, batch = server.ask(singles), server.ask(batches)
                of_system["single"].append(1000 * single["seconds"] / len(singles))
                of_system["batch"].append(BATCHES * BATCH_SIZE / batch["seconds"])
            keep()
        for server in servers:
            server.close()
        return found

    def _sizes(self) -> dict[str, dict[str, Any]]:
        """What is known of each system before it is timed."""
        found: dict[str, dict[str, Any]] = {}
        for system in self.systems:
            files = self.exported(0, system).rglob("*")
            size = sum(f.stat().st_size for f in files if f.is_file())
            timed = ("first", "first_call", "single", "batch")
            found[system.name] = {**{name: [] for name in timed}, "size": size}
        return found


def requests_of(columns: Sequence[Sequence[str]], size: int) -> list[list[list[str]]]:
    starts = range(0, len(columns[0]), size)
    return [[list(column[start : start + size]) for column in columns] for start in starts]


# --- What is shown ---


def times_as_fast(
    costs: Mapping[str, Mapping[str, Any]], name: str, what: str
) -> tuple[float, float, float]:
    """How many times as fast as the base, by medians, and the least and most of the rounds."""

    def speed(mine: float, base: float) -> float:
        return base / mine if what == "single" else mine / base

    mine, base = costs[name][what], costs[BASE.name][what]
    ratios = [speed(*pair) for pair in zip(mine, base, strict=True)]
    return speed(statistics.median(mine), statistics.median(base)), min(ratios), max(ratios)


def tables(results: Mapping[str, Any], systems: Sequence[System]) -> str:
    """Markdown: what each system costs, and how those that are scored score."""
    scored = [system for system in systems if system.is_scored]
    return f"{_costs_table(results['costs'], systems)}\n\n{_scores_table(results, scored)}"


def _costs_table(costs: Mapping[str, Mapping[str, Any]], systems: Sequence[System]) -> str:
    heads = ["", "numbers", "files, MB", "memory, MB", "first answer, s"]
    heads += ["one text, ms", "times as fast", "32 texts, texts/s", "times as fast"]
    lines = []
    for system in systems:
        of_system = costs[system.name]
        median = {n: statistics.median(of_system[n]) for n in ("first", "single", "batch")}
        cells = [
            system.title,
            system.numbers,
            f"{of_system['size'] / 1e6:.0f}",
            f"{of_system['memory'] / 1e6:.0f}",
            f"{median['first']:.1f}",
            f"{median['single']:.1f}",
            _ratio(costs, system.name, "single"),
            f"{median['batch']:.0f}",
            _ratio(costs, system.name, "batch"),
        ]
        lines.append(cells)
    return _markdown(heads, lines)


def _scores_table(results: Mapping[str, Any], systems: Sequence[System]) -> str:
    runs, scores = results["runs"], results["scores"]
    lines = [
        [system.title, system.numbers, *(f"{scores[system.name][run]:.1f}" for run in runs)]
        for system in systems
    ]
    return _markdown(["", "numbers", *runs], lines)


def _markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", "---", *["---:"] * (len(heads) - 2)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *lines))


def _ratio(costs: Mapping[str, Mapping[str, Any]], name: str, what: str) -> str:
    median, least, most = times_as_fast(costs, name, what)
    return "1" if name == BASE.name else f"{median:.2f} ({least:.2f}–{most:.2f})"


def draw_scores(results: Mapping[str, Any], systems: Sequence[System], path: Path) -> None:
    """Draws the mean score of all runs against the time for one text."""
    from bert_zoo.cli.finetuning import draw

    scored = [(s, results["scores"][s.name]) for s in systems if s.is_scored]
    markers = dict(zip(("float32", "bfloat16", "float16", "int8"), "osD^", strict=True))

    def plot(axes):
        titles = list(dict.fromkeys(system.title for system, _ in scored))
        for system, of_runs in scored:
            x = statistics.median(results["costs"][system.name]["single"])
            y = statistics.mean(of_runs[run] for run in results["runs"])
            color = f"C{titles.index(system.title)}"
            marker = markers[system.numbers]
            axes.plot(x, y, marker, color=color, markersize=8, label=system.name)
        axes.set(
            xlabel="ms for one text",
            ylabel=f"mean of {', '.join(results['runs'])}",
            title="minilm_l6: score against time",
            xscale="log",
        )
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("{x:g}")

    draw(path, (9, 4.5), plot)
