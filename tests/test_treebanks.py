"""Dependency trees are read as their files say, and what is no tree is refused with its place."""

import gzip

import pytest

from bert_zoo.data.treebanks import ParsedSentence, read_treebank

CONLLU = """# sent_id = 1
# text = It's\ta cat #1
1-2\tIt's\t_\t_\t_\t_\t_\t_\t_\t_
1\tIt\tit\tPRON\tPRP\t_\t4\tnsubj\t_\t_
2\t's\tbe\tAUX\tVBZ\t_\t4\tcop\t_\t_
3\ta\ta\tDET\tDT\t_\t4\tdet\t_\t_
3.1\tnice\tnice\tADJ\tJJ\t_\t_\t_\t4:amod\t_
4\tcat\tcat\tNOUN\tNN\t_\t0\troot\t_\t_

1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
"""


def test_conllu_is_read_without_comments_multiword_tokens_and_empty_nodes(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU)
    tags, relations = ("PRON", "AUX", "DET", "NOUN"), ("nsubj", "cop", "det", "root")
    assert read_treebank(path) == [
        ParsedSentence(("It", "'s", "a", "cat"), tags, (4, 4, 4, 0), relations),
        ParsedSentence(("Go",), ("VERB",), (0,), ("root",)),
    ]


def test_columns_of_word_tag_and_head_are_read_packed_or_not(tmp_path):
    path = tmp_path / "a.dp.gz"
    with gzip.open(path, "wt") as file:
        file.write("#\t#\t2\n1\tCD\t0\n\n\nGo\tVB\t0\n")
    assert read_treebank(path) == [
        ParsedSentence(("#", "1"), ("#", "CD"), (2, 0), None),
        ParsedSentence(("Go",), ("VB",), (0,), None),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\tDT\t2\nb\tNN\t1\n", "line 1: the sentence has 0 roots"),
        ("r\tX\t0\n\na\tDT\t3\nb\tNN\t1\nc\tNN\t2\nd\tV\t0\n", "line 3: .* cycle at word 1"),
        ("a\tDT\t3\nb\tNN\t0\n", "the head of 'a' is '3'; expected .* 1 to 2"),
        ("a DT 0\n", "line 1: found 1 columns in 'a DT 0', expected 10"),
        ("a\tDT\t0\nb\tNN\n", "line 2: found 2 columns .* expected 3 as above"),
        ("\n", "no sentences"),
    ],
)
def test_what_is_no_tree_is_refused_with_its_place(tmp_path, text, said):
    path = tmp_path / "a.tsv"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        read_treebank(path)
