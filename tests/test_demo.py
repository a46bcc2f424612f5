"""`bert_zoo demo`: the server's answers and refusals, and the page in a browser."""

import contextlib
import csv
import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode, urlsplit

import pytest
from helpers import (
    ALL_GOLDEN,
    ONE_A_TASK,
    TASK_CASES,
    has_text,
    load_task,
    loaded,
    slow_but,
    task_of,
)

import bert_zoo
from bert_zoo.cli import demo
from bert_zoo.cli.demo import Demo, Server
from bert_zoo.cli.predict import predict_file
from bert_zoo.data.tables import text_rows
from bert_zoo.tasks import NAMES, forms

HOSTILE = (
    "</script><script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\">"
)


@contextlib.contextmanager
def serving(model, name: str = "somewhere/model"):
    """A server on a free port, with its demo."""
    with Server("127.0.0.1", 0) as server:
        server.demo = Demo(model, name)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def classifier():
    return load_task(
        "classification", num_classes=3, labels=["good", HOSTILE, "so so"], init=["classifier"]
    )


@pytest.fixture(scope="module")
def server(classifier):
    with serving(classifier) as started:
        yield started


def asked(server, place: str, body=None, *, token: str | None = None, method="POST", **headers):
    """The status and the content of a response; JSON is read."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    path = f"/{server.token if token is None else token}/{place}"
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    content = response.read().decode()
    connection.close()
    is_json = response.headers["Content-Type"].startswith("application/json")
    return response.status, json.loads(content) if is_json else content


def answered(server, *values: str):
    return asked(server, "answer", json.dumps(values))


def predicted(server, table: str | bytes, **query: str):
    return asked(server, f"table?{urlencode({'name': 'a.csv'} | query)}", table)


# --- Answers ---


def test_the_page_loads_nothing_and_runs_its_own_script_alone(server):
    status, page = asked(server, "", method="GET")
    assert status == 200 and "<h1>model · classification</h1>" in page
    policy = re.search('Content-Security-Policy" content="([^"]+)"', page)[1]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert (rules["default-src"], rules["connect-src"]) == ("'none'", "'self'")
    assert rules["script-src"].startswith("'sha256-")
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page)


def test_a_text_is_answered_as_the_model_does_in_python(server, classifier):
    status, answer = answered(server, "the cat sat", "")
    assert status == 200 and answer["milliseconds"] > 0 and answer["notes"] == []
    assert answer["html"] == str(classifier.classify(["the cat sat"]).chart())
    _, pair = answered(server, "the cat sat", "a bird")
    assert pair["html"] == str(classifier.classify((["the cat sat"], ["a bird"])).chart())


def test_markup_in_texts_and_labels_is_shown_and_not_run(server):
    _, answer = answered(server, HOSTILE, "")
    assert "&lt;/script&gt;" in answer["html"] and "<img" not in answer["html"]
    assert not re.search("<script", answer["html"])
    _, table = predicted(server, f'text\n"{HOSTILE.replace(chr(34), chr(34) * 2)}"\n')
    assert "<img" not in table["html"] and "<img" in table["csv"]


def test_sixteen_clients_at_once_get_their_own_answers(server, classifier):
    texts = [f"the cat saw {' '.join(['big'] * i)} trees" for i in range(16)]
    with ThreadPoolExecutor(16) as pool:
        answers = [*pool.map(lambda text: answered(server, text, ""), texts)]
    assert [answer["html"] for _, answer in answers] == [
        str(classifier.classify([text]).chart()) for text in texts
    ]


def test_a_table_is_predicted_as_by_the_program(server, classifier, tmp_path):
    table = tmp_path / "a.csv"
    table.write_text('id,text,label\n7,"the cat, sat",x\n8,a bird,y\n')
    predict_file(classifier, text_rows(table), tmp_path / "out.csv")
    status, answer = predicted(server, table.read_bytes())
    assert status == 200 and answer["rows"] == 2
    assert answer["csv"] == (tmp_path / "out.csv").read_text()
    _, pairs = predicted(server, "a;b\nthe cat;a bird\n", text="a", text_pair="b")
    (pair,) = csv.DictReader(io.StringIO(pairs["csv"]))
    assert pair["text_pair"] == "a bird"


def test_warnings_about_a_text_are_shown_once(monkeypatch):
    short = forms.FORMS["classification"]._replace(examples=[["the cat", ""]])
    monkeypatch.setitem(forms.FORMS, "classification", short)
    with serving(load_task("classification")) as other:
        _, answer = answered(other, "the cat " * 100, "")
        assert "were truncated" in answer["notes"][0]
        assert answered(other, "the cat", "")[1]["notes"] == []


# --- Refusals ---


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (json.dumps(["a" * 5_000_000, ""]), 413, "5,000,008 bytes; the limit is 4,194,304"),
        (
            json.dumps(["a" * 60_000, ""]),
            413,
            "Text: the text has 60,000 characters; the limit is 50,000",
        ),
        (json.dumps([" \n", "a"]), 400, "Text: this field is empty"),
        (json.dumps(["a"]), 400, "must be a list of 2 texts"),
        (json.dumps(["a", 7]), 400, "must be a list of 2 texts"),
        (json.dumps({"a": "b"}), 400, "must be a list of 2 texts"),
        ("[" * 100_000, 400, "is not JSON"),
        (b"\xff\xfe", 400, "is not JSON"),
    ],
)
def test_texts_that_cannot_be_answered_are_refused_with_the_limit(server, body, status, words):
    found, answer = asked(server, "answer", body)
    assert found == status and words in answer["error"]


@pytest.mark.parametrize(
    ("table", "query", "status", "words"),
    [
        (
            "id,message\n1,a\n",
            {},
            400,
            "there is no column 'text'; the columns are ['id', 'message']",
        ),
        ("id,text\n1,a,b\n", {}, 400, "a.csv, line 2: found 3 fields, expected 2"),
        (b"text\n\xe9t\xe9\n", {}, 400, "line 2: this is not UTF-8"),
        (b"text\na\n", {"encoding": "no"}, 400, "does not know the encoding 'no'"),
        ("", {}, 400, "a.csv has no rows"),
        ("text\n", {}, 400, "a.csv has no rows"),
        ('text\n"a\n', {}, 400, "line 2: the row that begins here cannot be read"),
        ("text\n" + "a\n" * 5001, {}, 413, "a.csv has more than 5,000 rows, the limit."),
        ("text\n" + "a" * 50_001, {}, 413, "a.csv, row 1: the text has 50,001 characters"),
    ],
)
def test_tables_that_cannot_be_read_are_refused_with_the_place(server, table, query, status, words):
    found, answer = predicted(server, table, **query)
    assert found == status and words in answer["error"]


def test_a_table_is_read_in_the_encoding_that_is_named(server):
    _, answer = predicted(server, b"text\n\xe9t\xe9\n", encoding="latin-1")
    assert answer["csv"].splitlines()[1].startswith("été,")


@pytest.mark.parametrize(
    ("token", "place", "host", "method", "status"),
    [
        (None, "", "localhost", "GET", 200),
        (None, "", "192.168.1.5:80", "GET", 200),
        ("", "", "127.0.0.1", "GET", 403),
        ("wrong", "answer", "127.0.0.1", "POST", 403),
        ("%C3%A9", "", "127.0.0.1", "GET", 403),
        (None, "", "evil.example", "GET", 403),
        (None, "answer", "evil.example:8765", "POST", 403),
        (None, "", "127.0.0.1.evil.example", "GET", 403),
        (None, "", "[::1", "GET", 403),
        (None, "other", "127.0.0.1", "GET", 404),
        (None, "answer", "127.0.0.1", "GET", 404),
        (None, "", "127.0.0.1", "POST", 404),
        (None, "", "127.0.0.1", "DELETE", 501),
    ],
)
def test_only_the_printed_address_answers(server, token, place, host, method, status):
    assert asked(server, place, token=token, method=method, Host=host)[0] == status


def test_a_body_without_its_length_is_refused(server):
    with socket.create_connection(("127.0.0.1", server.server_port)) as client:
        head = f"POST /{server.token}/answer HTTP/1.1\r\nHost: localhost\r\n"
        client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n".encode())
        client.shutdown(socket.SHUT_WR)
        response = b"".join(iter(lambda: client.recv(4096), b""))
    assert b" 411 " in response.splitlines()[0] and b"no Content-Length" in response


def test_a_client_that_leaves_disturbs_nothing(server, capfd):
    for head in (
        "POST /",
        f"POST /{server.token}/answer HTTP/1.1\r\nContent-Length: 900\r\n\r\n[",
        "",
    ):
        with socket.create_connection(("127.0.0.1", server.server_port)) as client:
            client.sendall(head.encode())
    assert answered(server, "the cat sat", "")[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_failure_of_the_model_is_told_in_the_terminal(server, monkeypatch, capfd):
    monkeypatch.setattr(
        server.demo, "form", server.demo.form._replace(answer=lambda *_, **__: 1 / 0)
    )
    assert answered(server, "a", "") == (
        500,
        {"error": "The model failed. The terminal of `bert_zoo demo` says why."},
    )
    assert "ZeroDivisionError" in capfd.readouterr().err


# --- Forms ---


def test_every_task_that_predicts_has_a_form():
    assert {*forms.FORMS} == {*NAMES} - {"encoder"}


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("minilm_l6", "embedding"),
        ("minilm_nano", "embedding"),
        ("minilm_nano.sst2", "classification"),
        ("bert_nano", "masked_lm"),
        ("bert_base", "masked_lm"),
        ("t5_nano", "text_to_text"),
        ("transformer_xl_nano", "causal_lm"),
        (ALL_GOLDEN / "bert" / "question_answering", "embedding"),
    ],
)
def test_a_model_is_loaded_for_the_task_that_it_was_trained_for(name, task, monkeypatch):
    monkeypatch.setattr(bert_zoo, "load", lambda name, task: task)
    assert demo.load(str(name), None) == task
    assert demo.load(str(name), "regression") == "regression"


def run_on(folder, **data):
    """The directory of a run of `bert_zoo finetune` on data."""
    (folder / "config.json").write_text(json.dumps({"data": data, "recipe": {}}))
    return str(folder)


def test_a_run_shows_texts_on_which_it_was_measured(classifier, tmp_path):
    form = demo.form_of(classifier, run_on(tmp_path, name="messages"))
    texts, _ = bert_zoo.data.messages.load("test")
    assert form.fields == ("Text",) and form.columns == ["text"]
    assert [text for (text,) in form.examples] == texts[::15]


def test_a_run_on_pairs_of_a_table_shows_both_texts_and_its_columns(classifier, tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("first,second,label\n" + "a,b,x\nc,d,y\n" * 4)
    columns = {"text": "first", "text_pair": "second"}
    data = {"name": "table", "train_file": str(table), "dev_file": str(table), **columns}
    form = demo.form_of(classifier, run_on(tmp_path, **data))
    assert form.columns == ["first", "second"] and form.examples[:2] == [["a", "b"], ["c", "d"]]
    table.unlink()
    assert (
        demo.form_of(classifier, run_on(tmp_path, **data)).examples
        == forms.FORMS["classification"].examples
    )


def test_a_trained_model_of_entities_is_asked_for_its_own_types():
    model = bert_zoo.load(ALL_GOLDEN / "gliner" / "deberta_v2")
    assert demo.form_of(model, "a").examples == forms.FORMS["entity_recognition"].examples
    model.labels = ("cat", "house")
    assert [types for _, types in demo.form_of(model, "a").examples] == ["cat\nhouse"]


# --- The program ---


def test_the_program_serves_a_model_until_ctrl_c(classifier, monkeypatch, capsys):
    def stop(server):
        assert server.demo.model is classifier
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "load", lambda name, task: classifier)
    monkeypatch.setattr(Server, "serve_forever", stop)
    with pytest.raises(KeyboardInterrupt, match="Stopped"):
        demo.PROGRAM.run(demo.main, ["bert_nano", "--port", "0"])
    said = capsys.readouterr().out
    assert re.match(r"Try bert_nano at http://127\.0\.0\.1:\d+/[\w-]{22}/\n", said)
    assert "unencrypted" not in said
    with pytest.raises(KeyboardInterrupt):
        demo.PROGRAM.run(demo.main, ["bert_nano", "--port", "0", "--host", "0.0.0.0"])
    assert "unencrypted" in capsys.readouterr().out


@pytest.mark.slow
def test_the_program_prints_its_address_writes_nothing_and_ends_at_ctrl_c(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "bert_zoo", "demo", "minilm_nano.sst2", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    url = urlsplit(re.search(r"http:\S+", process.stdout.readline())[0])
    connection = http.client.HTTPConnection(url.netloc)
    connection.request("POST", f"{url.path}answer", json.dumps(["a wonderful film", ""]))
    assert "positive" in connection.getresponse().read().decode()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err, [*tmp_path.iterdir()]) == (130, "\nStopped.\n", [])


def test_a_model_that_cannot_read_the_example_has_a_page_that_says_why():
    with serving(loaded("gpt/causal_lm")) as other:
        assert asked(other, "", method="GET")[0] == 200
        status, answer = answered(other, *other.demo.form.examples[0])
        assert status == 400 and "at most" in answer["error"]


def test_a_port_in_use_is_told(server):
    with pytest.raises(ValueError, match=r"port \d+: Address already in use.*--port 0"):
        Server("127.0.0.1", server.server_port)
    with pytest.raises(ValueError, match=r"Cannot listen on no\.such\.host\.invalid"):
        Server("no.such.host.invalid", 0)


# --- In a browser ---

# A tiny model of each task whose vocabulary can read texts, BERT's if it has one.
CASES = {task_of(c): c for c in ONE_A_TASK if has_text(c)} | {
    t: f"bert/{c}" for t, c in TASK_CASES.items()
}
# The others have no text, or too few positions to write one.
OTHERS = {
    "hybrid_embedding": lambda: loaded("xlm_roberta/encoder", "hybrid_embedding"),
    "entity_recognition": lambda: bert_zoo.load(ALL_GOLDEN / "gliner" / "deberta_v2"),
    "causal_lm": lambda: bert_zoo.load("transformer_xl_nano", "causal_lm"),
}
QUICK = ("classification", "token_classification", "question_answering")


@pytest.fixture
def opened(browser):
    """A function that opens a server's page, and asserts at the end that nothing went wrong in it."""
    errors = []

    def open_page(server, width: int = 1280):
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.goto(server.address)
        return page

    yield open_page
    # The browser's own lines on refused requests.
    assert not [error for error in errors if "the server responded with a status of 4" not in error]


@pytest.mark.parametrize("task", slow_but([*forms.FORMS], *QUICK))
def test_every_task_answers_in_the_browser_by_keyboard(task, opened):
    model = OTHERS[task]() if task in OTHERS else loaded(CASES[task], task)
    with serving(model) as server:
        page = opened(server, width=390)
        first, *others = page.locator("form").first.locator("textarea").all()
        assert len(others) == len(server.demo.form.fields) - 1
        assert all(page.get_by_label(f, exact=True).is_visible() for f in server.demo.form.fields)
        first.focus()
        page.keyboard.press("Control+Enter")
        page.wait_for_selector(".result .state")
        shown = page.locator(".result").first
        assert re.search(r"[\d.]+ ms in the model$", shown.inner_text())
        given = server.demo.answer([*server.demo.form.examples[0]])["html"]
        same = "html => { const box = document.createElement('div'); box.innerHTML = html; return box.innerText }"
        assert " ".join(page.evaluate(same, given).split())[:40] in " ".join(
            shown.text_content().split()
        )
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_table_is_uploaded_and_its_predictions_downloaded(server, opened, tmp_path):
    (tmp_path / "a.csv").write_text("id,message\n7,the cat sat\n")
    page = opened(server)
    page.get_by_text("Predict a table").click()
    page.get_by_label("File").set_input_files(tmp_path / "a.csv")
    page.get_by_label("Column of texts").press("Control+Enter")
    page.get_by_text("there is no column 'text'").wait_for()
    page.get_by_label("Column of texts").fill("message")
    page.get_by_role("button", name="Predict").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the table").click()
    assert download.value.suggested_filename == "predictions.csv"
    with open(download.value.path(), encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["id"], row["text"]) == ("7", "the cat sat") and row["label"]


def test_errors_are_announced_and_markup_never_runs(server, opened):
    page = opened(server, width=390)
    page.get_by_label("Text", exact=True).fill(HOSTILE * 1000)
    page.get_by_role("button", name="Answer").click()
    page.get_by_role("alert").filter(has_text="the limit is 50,000").wait_for()
    page.get_by_label("Text", exact=True).fill(HOSTILE)
    page.get_by_role("button", name="Answer").click()
    page.wait_for_selector(".result .state")
    assert HOSTILE in page.locator(".result").first.inner_text()
    assert page.title() == "model · classification"
    assert page.locator(".result").first.get_attribute("aria-live") == "polite"
    assert page.get_by_role("alert").first.inner_text() == ""
