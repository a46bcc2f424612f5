"""Opens a local web page to try a model: text in, answer out.

bert_zoo demo runs/minilm_l6-messages
bert_zoo demo bert_nano
bert_zoo demo bert_base --task next_sentence_prediction

Takes a run directory, a model's directory or a name from `bert_zoo list`. The page also predicts tables
(CSV) as `bert_zoo predict` does. Open the address that is printed; requests without its token are
refused. Nothing is written to disk, and Ctrl-C ends it.
"""

import contextlib
import io
import ipaddress
import logging
import threading
import time
from collections.abc import Callable
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from bert_zoo.charts.page import Page
from bert_zoo.cli.benchmarks import BENCHMARKS, make_task
from bert_zoo.cli.benchmarks.questions import THRESHOLD
from bert_zoo.cli.local_server import WHOLE_TABLES, Refused, Server
from bert_zoo.cli.predict import WRITERS, predicted_rows
from bert_zoo.cli.program import Program
from bert_zoo.data import files
from bert_zoo.data.tables import text_rows
from bert_zoo.loading.locating import RUN_CONFIG, RUN_MODEL, check_name, kept_metrics
from bert_zoo.runtime.answers import Charted
from bert_zoo.tasks import forms

MAX_CHARACTERS = 50_000  # of a text
MAX_LINES = 100  # of a list of texts
MAX_ROWS = 5_000  # of a table
SHOWN_LINES = 6  # of a predicted table
NUM_EXAMPLES = 8
# Options that name a benchmark's files.
OWN_FILES = ("train_file", "dev_file", "test_file", "data_dir")
PROGRAM = Program(__doc__, takes_arguments=True)
_TASK = PROGRAM.enum(
    "task", None, [*forms.FORMS], "The model's task; by default the one it was trained for."
)
_HOST = PROGRAM.string("host", "127.0.0.1", "Address to listen on; 0.0.0.0 for other machines too.")
_PORT = PROGRAM.integer("port", 8765, "Port; 0 for any free one.", lower_bound=0, upper_bound=65535)


class Upload(NamedTuple):
    """A file in memory, with what `bert_zoo.data.tables.Table` uses of a `Path`."""

    name: str
    content: bytes
    suffix: str = ".csv"

    def is_file(self) -> bool:
        return True

    def open(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self.content)

    def __str__(self) -> str:
        return self.name


class Demo:
    """A model, which one request at a time may use, with its page and answers; `name` is what it was loaded from."""

    def __init__(self, model: Any, name: str):
        self.model, self.form = model, form_of(model, name)
        kept = kept_metrics(Path(name)) if (Path(name) / RUN_MODEL).is_dir() else {}
        self.options = {"no_answer_threshold": kept.get(THRESHOLD)}
        self._lock, self._log = threading.Lock(), BufferingHandler(capacity=1000)
        logging.getLogger("bert_zoo").addHandler(self._log)
        with contextlib.suppress(ValueError):  # a small model may be unable to read the example
            self.answer([*self.form.examples[0]])  # traces graphs, so that others need not wait
        use = getattr(model, "use", None)
        kinds = {"list": forms.LIST, "optional": forms.OPTIONAL}
        data = {"about": f"This model {use.purpose}." if use else "", **kinds}
        data |= {n: getattr(self.form, n) for n in ("fields", "examples", "columns")}
        title = f"{Path(name).name} · {model.task.replace('_', ' ')}"
        self.page = Page.of("demo", data, title=title, policy="connect-src 'self'")

    def answer(self, values: Any) -> dict[str, Any]:
        """The answer to the values of the form's fields, a list of strings, as HTML."""
        fields, read = self.form.fields, []
        if not (isinstance(values, list) and [type(v) for v in values] == [str] * len(fields)):
            raise Refused(400, f"The request must be a list of {len(fields)} texts.")
        for field, value in zip(fields, values, strict=True):
            lines = [line for line in value.splitlines() if line.strip()]
            if not lines and not field.endswith(forms.OPTIONAL):
                raise Refused(400, f"{field}: this field is empty. Write something.")
            if field.endswith(forms.LIST) and len(lines) > MAX_LINES:
                raise Refused(413, f"{field}: there are {len(lines):,}; the limit is {MAX_LINES}.")
            check_length(value, field)
            read.append(lines if field.endswith(forms.LIST) else value)
        found, about = self._timed(lambda: self.form.answer(self.model, *read, **self.options))
        return about | {"html": html_of(found)}

    def table(
        self, content: bytes, name="The table", text="text", text_pair="", encoding=""
    ) -> dict[str, Any]:
        """The predictions for the content of a CSV file, as `bert_zoo predict` writes them."""
        if not self.form.columns:
            raise Refused(404, f"A model of task {self.model.task!r} predicts no tables.")
        rows, how = [], {"encoding": encoding or None, "advice": " Name the columns above."}
        for row in text_rows(Upload(name, content), text, text_pair or None, **how):
            if len(rows) == MAX_ROWS:
                raise Refused(
                    413, f"{name} has more than {MAX_ROWS:,} rows, the limit. {WHOLE_TABLES}"
                )
            rows.append(row)
            for cell in row.texts:
                check_length(cell, f"{name}, row {len(rows)}")
        predicted, about = self._timed(lambda: [*predicted_rows(self.model, rows, **self.options)])
        file = io.StringIO()
        write = WRITERS[".csv"](file)
        for row in predicted:
            write(*row)
        first = "".join(file.getvalue().splitlines(keepends=True)[:SHOWN_LINES])
        return about | {"html": html_of(first), "csv": file.getvalue(), "rows": len(rows)}

    def _timed(self, call: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
        """What a call of the model returns, with its milliseconds and the warnings that it logs."""
        with self._lock:
            self._log.flush()
            started = time.perf_counter()
            found = call()
            milliseconds = round(1000 * (time.perf_counter() - started), 1)
            notes = [record.getMessage() for record in self._log.buffer]
        return found, {"milliseconds": milliseconds, "notes": notes}


def check_length(text: str, what: str) -> None:
    if len(text) > MAX_CHARACTERS:
        found = f"{what}: the text has {len(text):,} characters"
        raise Refused(413, f"{found}; the limit is {MAX_CHARACTERS:,}. Shorten it.")


def html_of(answer: Any) -> Markup:
    """An answer as HTML: its chart, or its text."""
    if isinstance(answer, Markup):
        return answer
    return answer.chart() if isinstance(answer, Charted) else Markup("<pre>{}</pre>").format(answer)


def form_of(model: Any, name: str) -> forms.Form:
    """The form of a model that was loaded from a name. A run's has rows on which it was measured as examples, only the
    fields that these have, and its columns."""
    form, data = forms.FORMS[model.task], _data_of_run(Path(name))
    rows = [
        row
        for row in _measured_rows(data)
        if all(text.strip() and len(text) <= MAX_CHARACTERS for text in row)
    ]
    if form.answer is forms.of_masks:
        tokenizer = model.preprocessor.tokenizer
        mask = tokenizer.id_to_token(tokenizer.mask_id)
        rows = [[text.replace("{mask}", mask) for text in form.examples[0]]]
    elif form.answer is forms.of_types and model.labels:  # it was trained
        rows = [(text, "\n".join(model.labels)) for text, *_ in rows or form.examples]
    width = len(rows[0]) if rows else len(form.fields)
    if width > len(form.fields) or not all(f.endswith(forms.OPTIONAL) for f in form.fields[width:]):
        rows, width = [], len(form.fields)
    trained = (data.get("text"), data.get("text_pair"))
    columns = [own or usual for own, usual in zip(trained, form.columns[:width], strict=False)]
    return form._replace(
        fields=form.fields[:width], examples=rows or form.examples, columns=columns
    )


def _data_of_run(directory: Path) -> dict[str, Any]:
    """The data options of a run of `bert_zoo finetune`; {} for other models."""
    path = directory / RUN_CONFIG
    data = files.read_json(path).get("data") if path.is_file() else None
    return data if isinstance(data, dict) and data.get("name") in BENCHMARKS else {}


def _measured_rows(options: dict[str, Any]) -> list[list[str]]:
    """Some rows of texts of the split that a run was measured on; none if it would have to be downloaded."""
    if options.get("name") != "messages" and not any(map(options.get, OWN_FILES)):
        return []
    try:
        task = make_task(**options)
        data = task.data(task.measured[0])
    except (OSError, ValueError):  # its files have been moved or changed
        return []
    data = task.take(data, range(0, len(data), max(1, len(data) // NUM_EXAMPLES))[:NUM_EXAMPLES])
    if hasattr(data, "words"):
        return [[" ".join(words)] for words in data.words]
    if hasattr(data, "examples"):
        return [[each.question, each.context] for each in data.examples]
    texts = getattr(data, "texts", ())
    return [*map(list, zip(*texts if isinstance(texts, tuple) else [texts], strict=True))]


def main(arguments: list[str]) -> None:
    if len(arguments) != 1:
        raise ValueError(
            "Name one model: a run directory, a model's directory, or a name from `bert_zoo list`."
        )
    (name,) = arguments
    check_name(name)
    with Server(_HOST.value, _PORT.value) as server:
        server.demo = Demo(load(name, _TASK.value), name)
        print(f"Try {name} at {server.address}\nCtrl-C ends it.", flush=True)
        if not ipaddress.ip_address(server.server_address[0]).is_loopback:
            print(
                "Whoever has this address can use the model. Texts travel unencrypted.", flush=True
            )
        server.serve_forever()


def load(name: str, task: str | None) -> Any:
    """A model for a task, by default the one that it was trained for, else for vectors of texts."""
    import bert_zoo
    from bert_zoo.loading.directories import open_checkpoint
    from bert_zoo.tasks import NAMES

    if task is None:
        opened = open_checkpoint(name, with_weights=False)
        provided = opened.provides if len(opened.provides) < len(NAMES) else ()
        likely = [opened.description.task, opened.trained_task]
        likely += [each for each in forms.FORMS if each in provided]
        likely += [each for each in forms.NEED_NO_HEAD if each in opened.family.tasks]
        task = next(each for each in likely if each in forms.FORMS)
    return bert_zoo.load(name, task)
