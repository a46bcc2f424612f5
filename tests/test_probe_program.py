"""`bert_zoo probe`: every analysis ends in the printed tables, results.json and the report."""

import json

import pytest
from helpers import assert_refused

from bert_zoo.cli import probe, probes

TREE = "{0}\tDT\t2\n{1}\tNN\t3\n{2}\tVB\t0\n{3}\tDT\t5\n{4}\tNN\t3\n.\t.\t3\n\n"
WORDS = [*map(str.split, ("the dog saw a cat", "a man read the book"))]
WORDS += [*map(str.split, ("the girl found a dog", "a cat ate the fish"))]


def run(arguments: str, output=None, model: str = "bert_nano") -> dict:
    """Runs the program and returns its results."""
    options = [f"--model={model}", *arguments.split(), *([f"--output_dir={output}"] * bool(output))]
    probe.PROGRAM.run(probe.main, options)
    return json.loads((output / "results.json").read_text())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    sentences = [WORDS[i % 4] for i in range(40)]
    (folder / "treebank.tsv").write_text("".join(TREE.format(*words) for words in sentences))
    tags = ["D", "N", "V", "D", "N"]
    for name, part in (("train", sentences), ("test", sentences[:4])):
        rows = (zip(words, tags, strict=True) for words in part)
        text = "\n\n".join("\n".join("\t".join(pair) for pair in row) for row in rows)
        (folder / f"{name}.txt").write_text(text + "\n")
    edge = {"span1": [0, 2], "span2": [3, 5], "label": "object"}
    other = {"span1": [3, 5], "span2": [0, 2], "label": "subject"}
    lines = [json.dumps({"text": " ".join(words), "targets": [edge, other]}) for words in sentences]
    unlabelled = json.dumps({"text": "no edges here", "targets": []})
    (folder / "edges.jsonl").write_text("\n".join([unlabelled, *lines]))
    splits = ["tr", "tr", "va", "te"]
    lines = [
        f"{splits[i % 4]}\t{'short' if i % 3 else 'long'}\t{' '.join(words)}"
        for i, words in enumerate(sentences)
    ]
    (folder / "length.txt").write_text("\n".join(lines))
    (folder / "corpus.txt").write_text("\n".join(" ".join(words) for words in sentences))
    pair = {"sentence_good": "The dogs bark.", "sentence_bad": "The dogs barks."}
    pair |= {"linguistics_term": "agreement", "UID": "a1"}
    (folder / "pairs.jsonl").write_text(json.dumps(pair))
    fact = {"obj_label": "man", "predicate_id": "P1"}
    fact["masked_sentences"] = ["The dog saw the [MASK] ."]
    (folder / "facts.jsonl").write_text(json.dumps(fact))
    return folder


@pytest.mark.slow
def test_a_treebank_is_probed_for_tags_trees_heads_and_geometry(files, tmp_path, capsys):
    results = run(f"--treebank={files}/treebank.tsv --corpus={files}/corpus.txt", tmp_path)
    printed, titles = capsys.readouterr().out, ("Parts of speech", "Trees", "Heads", "Geometry")
    assert {*titles, "Geometry of the corpus"} < set(results)
    of_words = results["Parts of speech"]
    assert set(of_words["accuracy"]) == {"bert_nano", probes.RANDOM}
    assert max(of_words["accuracy"]["bert_nano"][0]) > 0.9  # two articles are always the same
    assert {"selectivity", "compression"} < set(of_words)
    assert len(results["Trees"]["UUAS"]["bert_nano"][0]) == 3
    assert results["Trees"]["baselines"]["UUAS"]["each word under the one before"] == 0.75
    report = (tmp_path / "report.html").read_text()
    for title in titles:
        assert f"<h2>{title}</h2>" in report
        assert f"\n{title}\n" in printed
    assert "attention.html#layer=1&amp;head=1" in report
    assert "saw" in (tmp_path / "attention.html").read_text()


@pytest.mark.slow
def test_labels_of_words_spans_and_sentences_are_probed(files, tmp_path):
    asked = f"--tagging={files}/train.txt,{files}/test.txt --edges={files}/edges.jsonl"
    results = run(f"--norandom {asked} --senteval={files}/length.txt", tmp_path)
    assert max(results["Tags"]["accuracy"]["bert_nano"][0]) == 1
    assert max(results["Edges"]["micro-F1"]["bert_nano"][0]) > 0.6
    assert "accuracy" in results["Sentences: length"]


def test_max_sentences_keeps_the_first_of_each_split_and_the_report_says_what_one_run_gives(
    files, tmp_path, capsys
):
    asked = f"--senteval={files}/length.txt --max_sentences=10 --seeds=2"
    scores = run(f"--norandom {asked}", tmp_path)["Sentences: length"]["accuracy"]
    assert len(scores["bert_nano"]) == 2
    printed = capsys.readouterr().out
    # The file has 20 sentences to train on.
    assert "trained on 10 and measured on 10 items" in printed
    said = "are means of 2 runs; the other numbers come from the first run only."
    assert said in printed and said[-20:] in (tmp_path / "report.html").read_text()


def test_neighbours_and_words_in_blanks_need_no_training(files, tmp_path, capsys):
    asked = f"--corpus={files}/corpus.txt --word=dog --fine_tuned=bert_nano"
    blanks = f"--minimal_pairs={files}/pairs.jsonl --facts={files}/facts.jsonl"
    results = run(f"--norandom {asked} {blanks}", tmp_path)
    assert results["Fine-tuning"]["CKA"]["bert_nano"][0] == pytest.approx([1, 1, 1])
    assert any("[dog]" in table for table in results["Neighbours of 'dog'"])
    assert results["Minimal pairs"]["by group"][-1]["asked"] == 1
    assert results["Facts"]["by group"][-1]["asked"] == 1
    assert "[dog]" in capsys.readouterr().out
    assert "<h2>Neighbours of" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "Pass one or more of --treebank, --tagging"),
        ("--treebank=nowhere", "--treebank names nowhere, which does not exist"),
        ("--facts=. --word=dog", "Pass the text with --corpus"),
        ("--facts=. --fine_tuned=x", "Pass sentences with --treebank or --corpus"),
        ("--tagging=.,.,.,.", "--tagging names 4 files; it takes up to three"),
    ],
)
def test_what_cannot_be_probed_is_refused_before_a_model_is_loaded(arguments, words):
    assert_refused(lambda: run(arguments, model="never_loaded"), words)


def test_a_model_without_a_head_for_words_is_asked_nothing(files, tmp_path):
    words, asked = "need a masked-LM or causal-LM head", f"--facts={files}/facts.jsonl"
    assert_refused(lambda: run(asked, tmp_path, model="elmo_nano"), words)


def test_files_become_splits():
    assert probes.in_splits([[1, 2]]) == ([1, 2], None)
    _, splits = probes.in_splits([[0] * 20, [1, 2]])
    assert splits == [*["train"] * 9, "validation"] * 2 + ["test"] * 2
    assert probes.in_splits([[1], [2], [3]])[1] == ["train", "validation", "test"]
