"""Files of minimal pairs and of texts with a blank: what is read, and where it cannot be."""

import json

import pytest

from bert_zoo.data.fill_in import Cloze, MinimalPair, read_cloze, read_facts, read_minimal_pairs


def write_lines(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def blimp_line(good, bad, paradigm):
    groups = {"field": "morphology", "linguistics_term": "agreement", "UID": paradigm}
    return {"sentence_good": good, "sentence_bad": bad, **groups, "pairID": "0"}


def test_a_folder_of_blimp_is_read_with_phenomenon_and_paradigm(tmp_path):
    write_lines(tmp_path / "b.jsonl", blimp_line("She sees.", "She see.", "two"))
    write_lines(tmp_path / "a.jsonl", blimp_line("He runs.", "He run.", "one"))
    assert read_minimal_pairs(tmp_path) == [
        MinimalPair("He runs.", "He run.", ("agreement", "one")),
        MinimalPair("She sees.", "She see.", ("agreement", "two")),
    ]


def test_a_table_of_pairs_is_read_by_its_columns(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("right,wrong\nHe runs.,He run.\n")
    pairs = read_minimal_pairs(path, "right", "wrong", groups=())
    assert pairs == [MinimalPair("He runs.", "He run.")]


def test_goldbergs_lines_are_read_with_their_blank(tmp_path):
    path = tmp_path / "lgd_dataset.tsv"
    path.write_text("2\tx\tthe keys to it ***mask*** here .\tare\tis\n")
    columns = {"text": 2, "answer": 3, "wrong": 4, "groups": [0]}
    items = read_cloze(path, **columns, blank="***mask***", header=False)
    assert items == [Cloze("the keys to it [MASK] here .", "are", "is", ("2",))]


def test_facts_are_read_from_their_sentences(tmp_path):
    fact = {"obj_label": "Rome", "masked_sentences": ["It is in [MASK].", "Or not."]}
    other = {"obj_label": "dog", "masked_sentence": "A [MASK] barks.", "predicate_id": "P1"}
    items = read_facts(write_lines(tmp_path / "place_test.jsonl", fact, other))
    assert items == [
        Cloze("It is in [MASK]. Or not.", "Rome", groups=("place",)),
        Cloze("A [MASK] barks.", "dog", groups=("P1",)),
    ]


def test_facts_are_put_into_the_template_of_their_relation_once(tmp_path):
    fact = {"sub_label": "Dante", "obj_label": "Florence", "predicate_id": "P19", "evidences": []}
    path = write_lines(tmp_path / "P19.jsonl", fact, fact)
    template = "[X] was born in [Y] ."
    relations = write_lines(tmp_path / "relations", {"relation": "P19", "template": template})
    expected = [Cloze("Dante was born in [MASK] .", "Florence", groups=("P19",))]
    assert read_facts(path, relations) == expected
    assert read_facts(path, {"P19": template}) == expected


@pytest.mark.parametrize(
    ("lines", "templates", "message"),
    [
        (['{"obj_label": "x"}'], None, r"facts.jsonl, line 1: 'masked_sentence' is missing"),
        (
            [
                '{"obj_label": "x", "masked_sentences": ["a [MASK]"]}',
                '{"masked_sentence": "a [MASK]"}',
            ],
            None,
            r"line 2: 'obj_label' is missing",
        ),
        (
            ['{"obj_label": "x", "masked_sentence": "no"}'],
            None,
            r"line 1: The text 'no' has no blank. Write \[MASK\]",
        ),
        (
            ['{"obj_label": "x", "sub_label": "y"}'],
            {"P1": "[X] [Y]"},
            r"relation 'facts' has no template\. There are templates for \['P1'\]",
        ),
        (["{"], None, "line 1: this is not JSON"),
    ],
)
def test_what_facts_lack_is_named_with_its_line(tmp_path, lines, templates, message):
    path = tmp_path / "facts.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=message):
        read_facts(path, templates)


def test_a_folder_without_files_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no files that end in '.jsonl'"):
        read_minimal_pairs(tmp_path)


def test_a_text_without_its_blank_is_named_with_its_line(tmp_path):
    path = tmp_path / "items.tsv"
    path.write_text("text\tanswer\nthe [MASK]\tcat\nthe\tcat\n")
    with pytest.raises(ValueError, match=r"items.tsv, line 3: The text 'the' has no blank"):
        read_cloze(path, "text", "answer")
