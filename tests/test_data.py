"""The embedded messages, GLUE's files and GLUE's metrics."""

import collections
import itertools
import re
import subprocess
import sys
import unicodedata
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from bert_zoo.data import glue, messages

SHARED_GLUE = Path(__file__).parents[2] / "shared" / "data" / "glue"


def test_importing_readers_and_metrics_imports_neither_tensorflow_nor_keras():
    code = (
        "import sys, bert_zoo.metrics; "
        "from bert_zoo.data import choices, files, glue, messages, squad, tables, tagging; "
        "print({'tensorflow', 'tensorflow_datasets', 'keras', 'jax'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


# --- The messages ---


def normalised(text: str) -> str:
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def tokens(text: str) -> frozenset[str]:
    return frozenset(normalised(text).split())


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / len(first | second)


@pytest.fixture(scope="module")
def all_messages() -> list[str]:
    return messages.load("train")[0] + messages.load("test")[0]


@pytest.mark.parametrize(("split", "per_label"), [("train", 75), ("test", 15)])
def test_every_intent_has_the_same_number_of_messages(split, per_label):
    texts, label_ids = messages.load(split)
    assert len(texts) == len(label_ids) == per_label * len(messages.LABELS)
    counts = collections.Counter(label_ids)
    assert counts == dict.fromkeys(range(len(messages.LABELS)), per_label)


@pytest.mark.parametrize("split", messages.SPLITS)
def test_message_files_are_well_formed_utf8_tsv(split):
    file = resources.files("bert_zoo.data") / "messages" / f"{split}.tsv"
    text = file.read_bytes().decode("utf-8")
    assert text.endswith("\n") and not text.startswith("\ufeff")
    assert text == unicodedata.normalize("NFC", text)
    header, *rows = text.removesuffix("\n").split("\n")
    assert header == "label\ttext"
    assert len(rows) == len(text.splitlines()) - 1, "a message holds another kind of line end"
    fields = [row.split("\t") for row in rows]
    assert {len(row) for row in fields} == {2}
    assert {label for label, _ in fields} == set(messages.LABELS)
    assert all(message == message.strip() for _, message in fields)
    loaded_texts, loaded_ids = messages.load(split)
    assert [
        [messages.LABELS[i], t] for i, t in zip(loaded_ids, loaded_texts, strict=True)
    ] == fields


def test_labels_are_sorted_readable_names():
    assert list(messages.LABELS) == sorted(set(messages.LABELS))
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", label) for label in messages.LABELS)


def test_messages_have_3_to_35_words(all_messages):
    lengths = [len(message.split()) for message in all_messages]
    assert min(lengths) >= 3 and max(lengths) <= 35


def test_no_message_occurs_twice(all_messages):
    assert len({normalised(message) for message in all_messages}) == len(all_messages)


def test_no_two_messages_are_near_duplicates(all_messages):
    pairs = itertools.combinations([(message, tokens(message)) for message in all_messages], 2)
    close = [(a, b) for (a, a_tokens), (b, b_tokens) in pairs if jaccard(a_tokens, b_tokens) >= 0.5]
    assert not close


def test_near_duplicates_would_be_noticed():
    assert jaccard(tokens("Where is my parcel?"), tokens("where is my big parcel")) == 0.8
    assert normalised("Where is my PARCEL?!") == normalised("where is my parcel")


def test_messages_in_files_are_mixed(all_messages):
    _, label_ids = messages.load("train")
    assert len(set(label_ids[:40])) == len(messages.LABELS)


def test_an_unknown_split_of_the_messages_names_the_splits():
    with pytest.raises(ValueError, match=r"'validation'.*\['train', 'test'\]"):
        messages.load("validation")


# --- GLUE's files ---

MNLI_FRONT = (
    "index",
    "promptID",
    "pairID",
    "genre",
    "sentence1_binary_parse",
    "sentence2_binary_parse",
    "sentence1_parse",
    "sentence2_parse",
    "sentence1",
    "sentence2",
)
STSB_FRONT = ("index", "genre", "filename", "year", "old_index", "source1", "source2")

# task -> split -> (header or None, rows, expected texts, expected labels).
LAYOUTS = {
    "cola": {
        "train": (
            None,
            [("gj04", "1", "", 'He said "so.'), ("bc01", "0", "*", "Him said.")],
            ['He said "so.', "Him said."],
            [1, 0],
        ),
        "test": (("index", "sentence"), [("0", "Who knows?")], ["Who knows?"], None),
    },
    "sst2": {
        "train": (
            ("sentence", "label"),
            [("a treat ", "1"), (" dull , dull ", "0")],
            ["a treat ", " dull , dull "],
            [1, 0],
        ),
        "test": (("index", "sentence"), [("0", "uneasy mix")], ["uneasy mix"], None),
    },
    "mrpc": {
        "validation": (
            ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
            [("1", "10", "11", "One.", "Uno."), ("0", "12", "13", "Two.", '"Three"')],
            (["One.", "Two."], ["Uno.", '"Three"']),
            [1, 0],
        ),
        "test": (
            ("index", "#1 ID", "#2 ID", "#1 String", "#2 String"),
            [("0", "10", "11", "One.", "Uno.")],
            (["One."], ["Uno."]),
            None,
        ),
    },
    "stsb": {
        "train": (
            (*STSB_FRONT, "sentence1", "sentence2", "score"),
            [("0", "g", "f", "2012", "1", "none", "none", "A dog.", "A cat.", "1.250")],
            (["A dog."], ["A cat."]),
            [1.25],
        ),
        "test": (
            (*STSB_FRONT, "sentence1", "sentence2"),
            [("0", "g", "f", "2012", "1", "none", "none", "A dog.", "A cat.")],
            (["A dog."], ["A cat."]),
            None,
        ),
    },
    "qqp": {
        "train": (
            ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
            [("0", "1", "2", "Why?", "How?", "0"), ("1", "3", "4", "Who?", "Who is it?", "1")],
            (["Why?", "Who?"], ["How?", "Who is it?"]),
            [0, 1],
        ),
        "test": (
            ("id", "question1", "question2"),
            [("0", "Why?", "How?")],
            (["Why?"], ["How?"]),
            None,
        ),
    },
    "mnli": {
        "train": (
            (*MNLI_FRONT, "label1", "gold_label"),
            [
                (*"01234567", "It rains.", "It is wet.", "neutral", "entailment"),
                (*"01234567", "It rains.", "I sing.", "neutral", "neutral"),
                (*"01234567", "It rains.", "It is dry.", "neutral", "contradiction"),
            ],
            (["It rains."] * 3, ["It is wet.", "I sing.", "It is dry."]),
            [0, 1, 2],
        ),
        "validation_matched": (
            (*MNLI_FRONT, *(f"label{i}" for i in range(1, 6)), "gold_label"),
            [(*"01234567", "Matched.", "Yes.", *["entailment"] * 5, "neutral")],
            (["Matched."], ["Yes."]),
            [1],
        ),
        "validation_mismatched": (
            (*MNLI_FRONT, *(f"label{i}" for i in range(1, 6)), "gold_label"),
            [(*"01234567", "Mismatched.", "No.", *["entailment"] * 5, "contradiction")],
            (["Mismatched."], ["No."]),
            [2],
        ),
        "test_matched": (MNLI_FRONT, [(*"01234567", "M.", "m.")], (["M."], ["m."]), None),
        "test_mismatched": (MNLI_FRONT, [(*"01234567", "N.", "n.")], (["N."], ["n."]), None),
    },
    "qnli": {
        "validation": (
            ("index", "question", "sentence", "label"),
            [("0", "When?", "In May.", "entailment"), ("1", "Who?", "It is.", "not_entailment")],
            (["When?", "Who?"], ["In May.", "It is."]),
            [0, 1],
        ),
        "test": (
            ("index", "question", "sentence"),
            [("0", "When?", "May.")],
            (["When?"], ["May."]),
            None,
        ),
    },
    "rte": {
        "train": (
            ("index", "sentence1", "sentence2", "label"),
            [("0", "A.", "B.", "not_entailment"), ("1", "C.", "D.", "entailment")],
            (["A.", "C."], ["B.", "D."]),
            [1, 0],
        ),
        "test": (("index", "sentence1", "sentence2"), [("0", "A.", "B.")], (["A."], ["B."]), None),
    },
    "wnli": {
        "train": (
            ("index", "sentence1", "sentence2", "label"),
            [("0", "A fell on B.", "B hurt.", "1"), ("1", "C.", "D.", "0")],
            (["A fell on B.", "C."], ["B hurt.", "D."]),
            [1, 0],
        ),
        "test": (("index", "sentence1", "sentence2"), [("0", "A.", "B.")], (["A."], ["B."]), None),
    },
    "ax": {
        "test": (("index", "sentence1", "sentence2"), [("0", "A.", "B.")], (["A."], ["B."]), None)
    },
}
CASES = [(task, split) for task, splits in LAYOUTS.items() for split in splits]
HEADERS = [case for case in CASES if LAYOUTS[case[0]][case[1]][0]]


def write(data_dir: Path, task: str, split: str, content: str | bytes) -> Path:
    row = glue.DATA_SETS[task]
    path = data_dir / row.directory / row.files[split]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def tsv(header: tuple[str, ...] | None, rows: list[tuple[str, ...]], line_end: str = "\n") -> str:
    lines = rows if header is None else [header, *rows]
    return "".join("\t".join(line) + line_end for line in lines)


def test_the_layouts_cover_every_task():
    assert set(LAYOUTS) == set(glue.DATA_SETS)
    assert [task.directory for task in glue.DATA_SETS.values()] == [
        "CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI", "diagnostic",
    ]  # fmt: skip


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(("task", "split"), CASES)
def test_a_file_as_glue_distributes_it_is_read_exactly(tmp_path, task, split, line_end):
    header, rows, texts, labels = LAYOUTS[task][split]
    write(tmp_path, task, split, tsv(header, rows, line_end))
    result = glue.load_glue(task, split, tmp_path)
    assert (result.task, result.split) == (task, split)
    assert result.texts == texts
    assert result.labels == labels
    assert result.label_names == glue.DATA_SETS[task].label_names
    assert len(result) == len(rows)


@pytest.mark.parametrize(("task", "split"), CASES)
def test_a_missing_last_line_end_loses_no_row(tmp_path, task, split):
    header, rows, texts, _ = LAYOUTS[task][split]
    write(tmp_path, task, split, tsv(header, rows).removesuffix("\n"))
    assert glue.load_glue(task, split, str(tmp_path)).texts == texts


@pytest.mark.parametrize(("task", "split"), HEADERS)
def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path, task, split):
    header, rows, texts, labels = LAYOUTS[task][split]
    write(tmp_path, task, split, "\ufeff" + tsv(header, rows))
    result = glue.load_glue(task, split, tmp_path)
    assert (result.texts, result.labels) == (texts, labels)


@pytest.mark.parametrize(("task", "split"), HEADERS)
def test_columns_are_found_by_name_and_not_by_position(tmp_path, task, split):
    header, rows, texts, labels = LAYOUTS[task][split]
    write(tmp_path, task, split, tsv(header[::-1], [row[::-1] for row in rows]))
    result = glue.load_glue(task, split, tmp_path)
    assert (result.texts, result.labels) == (texts, labels)


@pytest.mark.parametrize("change", ["too few", "too many"])
@pytest.mark.parametrize(("task", "split"), CASES)
def test_a_malformed_row_is_named_by_file_line_and_fields(tmp_path, task, split, change):
    header, rows, _, _ = LAYOUTS[task][split]
    broken = rows[0][:-1] if change == "too few" else (*rows[0], "more")
    path = write(tmp_path, task, split, tsv(header, [rows[0], broken, rows[0]]))
    line_number = 2 if header is None else 3
    expected = f"{path}, line {line_number}: found {len(broken)} fields, expected {len(rows[0])} "
    with pytest.raises(ValueError, match=re.escape(expected)):
        glue.load_glue(task, split, tmp_path)


def test_an_empty_line_is_an_error_and_not_dropped(tmp_path):
    write(tmp_path, "sst2", "train", "sentence\tlabel\ngood\t1\n\nbad\t0\n")
    with pytest.raises(ValueError, match="line 3: the line is blank, and rows follow it"):
        glue.load_glue("sst2", "train", tmp_path)


@pytest.mark.parametrize(
    ("task", "content"),
    [("sst2", "sentence\tlabel\n"), ("sst2", "sentence\tlabel"), ("sst2", ""), ("cola", "")],
)
def test_a_file_without_rows_is_named(tmp_path, task, content):
    path = write(tmp_path, task, "train", content)
    with pytest.raises(ValueError, match=re.escape(f"{path} has no rows")):
        glue.load_glue(task, "train", tmp_path)


def test_only_a_line_feed_ends_a_line(tmp_path):
    texts = ["a\x85b", "c\u2028d", "e\x0bf\x0cg", "h\x1ci\x1dj\x1ek", "l\rm", "\u2029"]
    write(tmp_path, "sst2", "train", "sentence\tlabel\n" + "".join(f"{t}\t1\n" for t in texts))
    assert glue.load_glue("sst2", "train", tmp_path).texts == texts


def test_quotes_spaces_and_composition_of_a_text_stay(tmp_path):
    texts = ['"open', 'clo"sed"', '""', "  both ends  ", "e\u0301 and é", "", "\u00a0", "'", "\\t"]
    write(tmp_path, "sst2", "train", "sentence\tlabel\n" + "".join(f"{t}\t0\n" for t in texts))
    assert glue.load_glue("sst2", "train", tmp_path).texts == texts


def test_bytes_that_are_not_utf8_are_named_by_file_and_line(tmp_path):
    path = write(tmp_path, "sst2", "train", b"sentence\tlabel\nfine\t1\ncaf\xe9\t1\n")
    with pytest.raises(ValueError, match=re.escape(f"{path}, line 3: this is not UTF-8")):
        glue.load_glue("sst2", "train", tmp_path)


@pytest.mark.parametrize(
    ("task", "row", "message"),
    [
        ("sst2", "fine\t2", "the label is '2', expected one of ['0', '1']"),
        ("sst2", "fine\t", "the label is empty"),
        ("stsb", "a\tb\t5.1", "the score is 5.1, expected a number from 0 to 5"),
        ("stsb", "a\tb\tnan", "the score is 'nan', expected a finite number"),
        ("stsb", "a\tb\thigh", "the score is 'high', expected a finite number"),
        ("mnli", "a\tb\t-", "the label is '-', expected one of ['entailment', 'neutral', "),
    ],
)
def test_a_label_that_the_task_does_not_have_is_an_error(tmp_path, task, row, message):
    task_row = glue.DATA_SETS[task]
    header = (*task_row.text_columns, task_row.label_column)
    write(tmp_path, task, "train", tsv(header, []) + row + "\n")
    with pytest.raises(ValueError, match=re.escape(f"line 2: {message}")):
        glue.load_glue(task, "train", tmp_path)


def test_a_header_without_the_columns_is_an_error(tmp_path):
    path = write(tmp_path, "sst2", "train", "sentence1\tlabel\nx\t1\n")
    with pytest.raises(
        ValueError, match=re.escape(f"{path}, line 1: there is no column 'sentence'")
    ):
        glue.load_glue("sst2", "train", tmp_path)


def test_a_training_file_needs_its_label_column(tmp_path):
    write(tmp_path, "rte", "train", "index\tsentence1\tsentence2\n0\ta\tb\n")
    with pytest.raises(ValueError, match="there is no column 'label'"):
        glue.load_glue("rte", "train", tmp_path)


def test_a_missing_file_names_its_path_and_what_data_dir_means(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"SST-2.dev\.tsv\. data_dir must be the folder"):
        glue.load_glue("sst2", "validation", tmp_path)


@pytest.mark.parametrize(
    ("task", "split", "message"),
    [
        ("sst-2", "train", r"'sst-2' is not a GLUE task; choose one of \['cola', 'sst2', 'mrpc'"),
        ("sst2", "dev", r"no split 'dev'; choose one of \['train', 'validation', 'test'\]"),
        ("mnli", "validation", r"no split 'validation'; .*'validation_mismatched'"),
        ("ax", "train", r"no split 'train'; choose one of \['test'\]"),
    ],
)
def test_unknown_names_list_the_known_ones(task, split, message):
    with pytest.raises(ValueError, match=message):
        glue.load_glue(task, split)


@pytest.mark.parametrize(
    ("task", "train_rows", "validation_rows"),
    [("cola", 8551, 1043), ("sst2", 67349, 872), ("rte", 2490, 277)],
)
def test_real_files_have_glues_number_of_rows(task, train_rows, validation_rows):
    if not (SHARED_GLUE / glue.DATA_SETS[task].directory).is_dir():
        pytest.skip("GLUE's files are not at ../shared/data/glue.")
    train = glue.load_glue(task, "train", SHARED_GLUE)
    validation = glue.load_glue(task, "validation", SHARED_GLUE)
    assert (len(train), len(train.labels)) == (train_rows, train_rows)
    assert (len(validation), len(validation.labels)) == (validation_rows, validation_rows)
    assert set(train.labels) == set(validation.labels) == {0, 1}


def test_real_rte_begins_with_its_known_pair():
    if not (SHARED_GLUE / "RTE").is_dir():
        pytest.skip("GLUE's files are not at ../shared/data/glue.")
    split = glue.load_glue("rte", "train", SHARED_GLUE)
    first, second = split.texts
    assert first[0] == "No Weapons of Mass Destruction Found in Iraq Yet."
    assert second[0] == "Weapons of Mass Destruction Found in Iraq."
    assert split.label_names[split.labels[0]] == "not_entailment"


# --- TensorFlow Datasets ---


def test_a_task_from_tfds_comes_in_the_order_of_glues_file(fake_tfds):
    asked = []

    def load(name, split):
        asked.append((name, split))
        return [
            {"idx": np.int32(2), "premise": b"c", "hypothesis": "ç".encode(), "label": np.int64(0)},
            {"idx": np.int32(0), "premise": b"a", "hypothesis": b"A", "label": np.int64(2)},
        ]

    fake_tfds(load)
    result = glue.load_glue("mnli", "validation_matched")
    assert asked == [("glue/mnli", "validation_matched")]
    assert result.texts == (["a", "c"], ["A", "ç"])
    assert result.labels == [2, 0]
    assert all(type(label) is int for label in result.labels)


def test_scores_from_tfds_are_floats(fake_tfds):
    example = {"idx": 0, "sentence1": b"a", "sentence2": b"b", "label": np.float32(2.5)}
    fake_tfds(lambda name, split: [example])
    labels = glue.load_glue("stsb", "train").labels
    assert labels == [2.5] and type(labels[0]) is float


def test_hidden_labels_of_tfds_are_none(fake_tfds):
    example = {"idx": 0, "sentence": b"a", "label": np.int64(-1)}
    fake_tfds(lambda name, split: [example])
    assert glue.load_glue("sst2", "test").labels is None


def test_a_failed_download_says_why_and_names_data_dir(fake_tfds):
    def load(name, split):
        raise ConnectionError("no route to host")

    fake_tfds(load)
    with pytest.raises(
        RuntimeError, match=r"glue/rte, split train \(ConnectionError: no route"
    ) as e:
        glue.load_glue("rte", "train")
    assert "RTE" in str(e.value) and "--data_dir" in str(e.value)


def test_a_missing_tfds_says_so_and_names_data_dir(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(RuntimeError, match=r"pip install 'bert_zoo\[datasets\]'.*--data_dir"):
        glue.load_glue("rte", "train")


def test_the_table_agrees_with_tensorflow_datasets():
    tfds_glue = pytest.importorskip("tensorflow_datasets.text.glue")
    configs = {config.name: config for config in tfds_glue.Glue.BUILDER_CONFIGS}
    for task in glue.DATA_SETS.values():
        config = configs[task.name]
        assert tuple(config.text_features) == (task.text_features or task.text_columns)
        assert tuple(config.label_classes or ()) == task.label_names


# --- Metrics ---

# Values of scikit-learn 1.9.1 (accuracy_score, f1_score, matthews_corrcoef) and SciPy 1.17.1
# (pearsonr, spearmanr).
CLASSES = [1, 0, 1, 1, 0, 0, 1, 0, 1, 1]
PREDICTED_CLASSES = [1, 0, 0, 1, 1, 0, 1, 0, 1, 0]
SCORES = [0.0, 1.2, 2.5, 2.5, 3.8, 5.0, 4.2, 0.4]
PREDICTED_SCORES = [0.3, 0.9, 3.1, 2.0, 3.1, 4.6, 3.1, 1.1]
ACCURACY = 0.7
F1 = 0.7272727272727273
MATTHEWS = 0.408248290463863
PEARSON = 0.9475177524932438
SPEARMAN = 0.9326733179802502


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("cola", {"matthews_correlation": MATTHEWS}),
        ("sst2", {"accuracy": ACCURACY}),
        ("mrpc", {"f1": F1, "accuracy": ACCURACY}),
        ("qqp", {"f1": F1, "accuracy": ACCURACY}),
        ("mnli", {"accuracy": ACCURACY}),
        ("qnli", {"accuracy": ACCURACY}),
        ("rte", {"accuracy": ACCURACY}),
        ("wnli", {"accuracy": ACCURACY}),
        ("stsb", {"pearson": PEARSON, "spearman": SPEARMAN}),
    ],
)
def test_metrics_equal_scikit_learns_and_scipys(task, expected):
    is_regression = glue.DATA_SETS[task].is_regression
    labels = SCORES if is_regression else CLASSES
    predictions = PREDICTED_SCORES if is_regression else PREDICTED_CLASSES
    result = glue.metrics(task, labels, predictions)
    assert list(result) == list(expected)
    assert result == pytest.approx(expected, abs=1e-12)
    assert all(type(value) is float for value in result.values())


def test_mnli_counts_three_classes():
    assert glue.metrics("mnli", [0, 1, 2, 2], [0, 2, 2, 1]) == {"accuracy": 0.5}


@pytest.mark.parametrize(
    ("task", "labels", "predictions", "expected"),
    [
        ("cola", [0, 1, 1], [1, 1, 1], {"matthews_correlation": 0.0}),
        ("cola", [1, 1], [0, 1], {"matthews_correlation": 0.0}),
        ("cola", [0, 1, 1], [1, 0, 0], {"matthews_correlation": -1.0}),
        ("mrpc", [0, 0], [0, 0], {"f1": 0.0, "accuracy": 1.0}),
        ("stsb", [1.0, 2.0, 3.0], [0.1, 0.1, 0.1], {"pearson": 0.0, "spearman": 0.0}),
        ("stsb", [1.0, 2.0, 3.0], [1.0, 4.0, 9.0], {"pearson": 0.98974331861, "spearman": 1}),
        ("stsb", [1.0, 2.0, 2.0, 3.0], [4.0, 3.0, 3.0, 0.0],
         {"pearson": -0.9428090415820634, "spearman": -1.0}),
    ],
)  # fmt: skip
def test_metrics_at_the_edges(task, labels, predictions, expected):
    assert glue.metrics(task, labels, predictions) == pytest.approx(expected, abs=1e-12)


def test_equal_values_share_the_mean_of_their_ranks():
    # Ranks of the labels 1, 2.5, 2.5, 4 and of the predictions 2, 1, 3.5, 3.5; by hand: 2.25 / 4.5.
    result = glue.metrics("stsb", [1.0, 2.0, 2.0, 3.0], [2.0, 1.0, 4.0, 4.0])
    assert result["spearman"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("task", "labels", "predictions", "message"),
    [
        ("sst2", [0, 1], [0], "There are 2 labels and 1 predictions"),
        ("sst2", [], [], r"labels for sst2 have the shape \(0,\)"),
        ("sst2", [0, 1], [[0.1, 0.9], [0.8, 0.2]], r"predictions for sst2 .* \(2, 2\)"),
        ("sst2", [0, 1], [0.2, 0.9], "predictions for sst2 are of type float64, expected integer"),
        (
            "sst2",
            [0, 1],
            [0, 2],
            "predictions for sst2 range from 0 to 2, expected class ids from 0",
        ),
        ("sst2", [-1, 1], [0, 1], "labels for sst2 range from -1 to 1"),
        ("stsb", [1.0, 2.0], [1.0, float("nan")], "predictions for stsb hold values .* not finite"),
        ("snli", [0], [0], "'snli' is not a GLUE task"),
    ],
)
def test_metrics_refuse_what_they_cannot_score(task, labels, predictions, message):
    with pytest.raises(ValueError, match=message):
        glue.metrics(task, labels, predictions)
