"""Files of SWAG, RACE, SNLI, XNLI, MRQA, SQuAD, tags, blanks and probes: what is read, and what is wrong with bad ones.

A table holds a call with a folder, the files of the folder, and what is found, or words of the error.
"""

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused

from bert_zoo.data import choices, mrqa, nli, squad, tagging
from bert_zoo.data.edges import Edge, EdgeSentence, read_edges
from bert_zoo.data.fill_in import Cloze, MinimalPair, read_cloze, read_facts, read_minimal_pairs
from bert_zoo.data.senteval import read_senteval
from bert_zoo.data.squad import Answer, SquadExample
from bert_zoo.data.tagging import Span

SHARED = Path(__file__).parents[2] / "shared" / "data"


def write_files(folder: Path, files: dict) -> Path:
    """Writes texts, bytes, JSON objects, and lines of JSON from lists of them; returns the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "".join(json.dumps(line) + "\n" for line in content)
        elif isinstance(content, dict):
            content = json.dumps(content)
        content = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return folder


# --- SWAG and RACE ---

SWAG = '''\
,video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label
0,v,1,"He sat, still. He","He sat, still.",He,gold,a,"said ""b""",c,d,1
1,v,2,She ran. ,She ran.,,gen,e,f,g,h,3
'''
SWAG_CHOICES = [["He a", 'He said "b"', "He c", "He d"], ["e", "f", "g", "h"]]
UNLABELLED = "\n".join(line.rpartition(",")[0] for line in SWAG.splitlines())


def passage(id="high1.txt", **members):
    return {
        "id": id,
        "article": f"Text of {id}.\nIts end.",
        "questions": ["Who  is it?", "The _ runs to the _ ."],
        "options": [["a", "b", "c", "d"], ["cat", "dog", "cow", "hen"]],
        "answers": ["D", "A"],
        **members,
    }


RACE = {f"dev/high/{i}.txt": passage(f"high{i}.txt") for i in (10, 9)}
RACE |= {"dev/middle/5.txt": passage("middle5.txt"), "dev/high/all.txt": "the same once more"}


def race_of(folder):
    return choices.load_race("train", "high", folder)


def bad_passage(**members):
    return {"train/high/7.txt": passage(**members)}


# --- SNLI and XNLI ---

PARSES = "sentence1_binary_parse\tsentence2_binary_parse"
SNLI = f"gold_label\t{PARSES}\tsentence1\tsentence2\tcaptionID\n" + "".join(
    f"{label}\t(p)\t(p)\t{first}\t{second}\tc\n"
    for label, first, second in (
        ("neutral", "A man.", "He sleeps."),
        ("-", "A dog.", "It runs."),
        ("entailment", "One.", "It."),
    )
)
SNLI_NAMES, *SNLI_ROWS = (line.split("\t") for line in SNLI.splitlines())
SNLI_RECORDS = [dict(zip(SNLI_NAMES, row, strict=True)) for row in SNLI_ROWS]
READ_SNLI = {
    "labels": [1, 0],
    "texts": (["A man.", "One."], ["He sleeps.", "It."]),
    "label_names": nli.NLI_LABELS,
    "skipped": 1,
}
XNLI = f"language\tgold_label\t{PARSES}\tsentence1\tsentence2\tpromptID\tpairID\tgenre\n" + "".join(
    f"{language}\t{label}\t\t\t{first}\t{second}\t1\t2\tfiction\n"
    for language, label, first, second in (
        ("de", "neutral", "Ein Hund.", 'Er "bellt".'),
        ("fr", "contradiction", "Un chien.", "Un chat."),
        ("de", "entailment", "Ja.", "Eben."),
        ("fr", "entailment", "Oui.", "Voilà."),
    )
)


def translation(first: str) -> str:
    return f"premise\thypo\tlabel\n{first}\tb\tcontradictory\n{first} 2\tb\tneutral\n"


def translations(folder: str) -> dict[str, str]:
    names = {language: f"{folder}/multinli.train.{language}.tsv" for language in ("en", "sw")}
    return {name: translation(language) for language, name in names.items()}


# --- MRQA ---

MRQA_CONTEXT = "[TLE] Café [PAR] The cat sat. [DOC] A cat ran."


def asked(qid: str = "q1", **members):
    spans = [[21, 23], [38, 40]]
    answers = [{"text": "cat", "char_spans": spans, "token_spans": [[3, 3], [8, 8]]}]
    return {"qid": qid, "question": "Who sat?", "question_tokens": [["Who", 0]],
            "detected_answers": answers, "answers": ["the Cat", "a lion"], **members}  # fmt: skip


def mrqa_lines(*questions, name: str = "NewsQA") -> list[dict]:
    line = {"id": "", "context": MRQA_CONTEXT, "context_tokens": [["[TLE]", 0]], "qas": questions}
    return [{"header": {"dataset": name, "split": "dev"}}, line]


def mrqa_of(folder):
    return mrqa.read_mrqa(folder / "a.jsonl")


def bad_mrqa(**members):
    return {"a.jsonl": mrqa_lines(asked(**members))}


# What is accepted need not stand in the context.
MRQA = mrqa.MrqaExample(
    *("q1", "NewsQA, line 2", "Who sat?", MRQA_CONTEXT, (Answer("cat", 21), Answer("cat", 38))),
    *(False, ("the Cat", "a lion"), "NewsQA"),
)

# --- SQuAD ---

# One astral character (two UTF-16 units, four bytes) and one of two bytes before the answers.
CONTEXT = "𝔸 café in Paris, and one more in Paris."
# Of four annotators.
PLACES = (("Paris", 10), ("Paris", 33), ("Paris", 10), ("in Paris", 7))
PLAUSIBLE = [{"text": "Paris", "answer_start": 10}]


def question(id="q1", answers=(("Paris", 10),), **members):
    answers = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": id, "question": "Where?", "answers": answers, **members}


def article(*questions, title="title") -> dict:
    one = {title: "Cafés", "paragraphs": [{"context": CONTEXT, "qas": questions}]}
    return {"version": "x", "data": [one]}


def squad_of(folder, **options):
    return squad.read_squad(folder / "a.json", **options)


def squad_example(id="q1", answers=(("Paris", 10),)):
    found = tuple(Answer(text, start) for text, start in answers)
    return SquadExample(id, "Cafés", "Where?", CONTEXT, found, not answers)


# --- Tags ---

TAGS = "-DOCSTART- -X- O\n\nU.N. NNP B-ORG\nofficial NN O\n\n\nJohn NNP B-PER\nSmith NNP I-PER\n"
TAGGED_WORDS = [["U.N.", "official"], ["John", "Smith"]]


def tags_of(folder, **options):
    return tagging.read_tagging(folder / "a.txt", **options)


def conll(*tags: str) -> str:
    words = zip(("EU", "UN"), tags, strict=True)
    return "-DOCSTART- -X- O O\n\n" + "".join(f"{word} NNP I-NP {tag}\n" for word, tag in words)


# --- Blanks and probes ---


def blimp_line(good, bad, paradigm):
    groups = {"field": "morphology", "linguistics_term": "agreement", "UID": paradigm}
    return {"sentence_good": good, "sentence_bad": bad, **groups, "pairID": "0"}


FACT = {"sub_label": "Dante", "obj_label": "Florence", "predicate_id": "P19", "evidences": []}
TEMPLATE = "[X] was born in [Y] ."
EDGE = {"span1": [1, 2], "label": "NN", "info": {"height": 1}}


def edges(*targets) -> dict:
    return {"train.json": {"text": "The  bee landed .", "targets": targets, "info": {}}}


def edges_of(folder):
    return read_edges(folder / "train.json")


def facts_of(folder, templates=None):
    return read_facts(folder / "facts.jsonl", templates)


def senteval_of(folder):
    return read_senteval(folder / "past_present.txt")


# --- What is read ---

# Attributes of what is found, the first of which has a value for every row; or all of a list.
READ = {
    "SWAG": (
        lambda d: choices.load_swag("train", d), {"train.csv": SWAG},
        {"choices": SWAG_CHOICES, "prompts": ["He sat, still.", "She ran."], "labels": [1, 3], "ids": ["0", "1"]},
    ),
    "SWAG, test": (
        lambda d: choices.load_swag("test", d), {"test.csv": UNLABELLED}, {"choices": SWAG_CHOICES, "labels": None},
    ),
    "RACE, by level and number": (
        lambda d: choices.load_race("validation", "all", d), RACE,
        {"ids": [f"{name}.txt/{i}" for name in ("middle5", "high9", "high10") for i in (0, 1)],
         "passages": [f"Text of {name}.txt.\nIts end." for name in ("middle5", "high9", "high10") for _ in (0, 1)],
         "questions": passage()["questions"] * 3, "options": passage()["options"] * 3, "labels": [3, 0] * 3},
    ),
    "RACE, one level": (lambda d: choices.load_race("validation", "high", d), RACE, {"labels": [3, 0] * 2}),
    "RACE, as ALBERT's program makes choices": (
        lambda d: choices.load_race("test", "high", d).as_choices(), {"test/high/1.txt": passage()},
        {"prompts": ["Text of high1.txt.\nIts end."] * 2, "labels": [3, 0],
         "choices": [[f"Who  is it? {each}" for each in "abcd"],
                     [f"The {each} runs to the {each} ." for each in ("cat", "dog", "cow", "hen")]]},
    ),
    "SNLI": (lambda d: nli.load_snli("validation", d), {"snli_1.0_dev.txt": SNLI}, READ_SNLI),
    "SNLI, as JSON": (
        lambda d: nli.load_snli("validation", d), {"snli_1.0/snli_1.0_dev.jsonl": SNLI_RECORDS}, READ_SNLI,
    ),
    "XNLI": (
        lambda d: nli.load_xnli("test", d), {"XNLI-1.0/xnli.test.tsv": XNLI},
        {"labels": [1, 2, 0, 0], "languages": ["de", "fr", "de", "fr"],
         "texts": (["Ein Hund.", "Un chien.", "Ja.", "Oui."], ['Er "bellt".', "Un chat.", "Eben.", "Voilà."])},
    ),
    "XNLI, train": (
        lambda d: nli.load_xnli("train", d), translations("."), {"labels": [2, 1], "texts": (["en", "en 2"], ["b"] * 2)},
    ),
    **{f"XNLI, languages that are asked for, {folder}": (
        lambda d: nli.load_xnli("train", d, ("sw", "en")), translations(folder),
        {"labels": [2, 1, 2, 1], "texts": (["sw", "sw 2", "en", "en 2"], ["b"] * 4), "languages": ["sw", "sw", "en", "en"]},
    ) for folder in ("XNLI-MT-1.0/multinli", "multinli", ".")},
    "MRQA": (mrqa_of, {"a.jsonl": mrqa_lines(asked())}, {"examples": (MRQA,), "version": "1.1"}),
    "MRQA, packed": (
        lambda d: mrqa.read_mrqa(d / "a.jsonl.gz"), {"a.jsonl.gz": mrqa_lines(asked())}, {"examples": (MRQA,)},
    ),
    "SQuAD 1.1": (
        squad_of, {"a.json": article(question(answers=PLACES))},
        {"examples": (squad_example(answers=PLACES),), "version": "1.1"},
    ),
    # Plausible answers are left out.
    "SQuAD 2.0": (
        squad_of,
        {"a.json": article(question(is_impossible=False), question("q3", (), is_impossible=True),
                           question("q2", (), is_impossible=True, plausible_answers=PLAUSIBLE))},
        {"examples": (squad_example(), squad_example("q3", ()), squad_example("q2", ())), "version": "2.0"},
    ),
    # Files without titles are common.
    "SQuAD, without titles and answers": (
        lambda d: squad_of(d, with_answers=False), {"a.json": article({"id": "q1", "question": "Where?"}, title="name")},
        {"examples": (SquadExample("q1", "", "Where?", CONTEXT, None, None),)},
    ),
    **{f"SQuAD {version}, {split}": (
        lambda d, version=version, split=split: squad.load_squad(version, split, d),
        {f"{prefix}-v{version}.json": article(question(f"{prefix}{version}"))},
        {"examples": (squad_example(f"{prefix}{version}"),)},
    ) for version in ("1.1", "2.0") for split, prefix in (("train", "train"), ("validation", "dev"))},
    "tags": (
        tags_of, {"a.txt": TAGS},
        {"words": TAGGED_WORDS, "labels": [[1, 0], [2, 3]], "label_names": ("O", "B-ORG", "B-PER", "I-PER"), "scheme": "IOB2"},
    ),
    "a folder of BLiMP": (
        read_minimal_pairs,
        {"b.jsonl": [blimp_line("She sees.", "She see.", "two")], "a.jsonl": [blimp_line("He runs.", "He run.", "one")]},
        [MinimalPair("He runs.", "He run.", ("agreement", "one")), MinimalPair("She sees.", "She see.", ("agreement", "two"))],
    ),
    "columns of pairs": (
        lambda d: read_minimal_pairs(d / "a.csv", "right", "wrong", groups=()), {"a.csv": "right,wrong\nHe runs.,He run.\n"},
        [MinimalPair("He runs.", "He run.")],
    ),
    "Goldberg's lines": (
        lambda d: read_cloze(d / "a.tsv", text=2, answer=3, wrong=4, groups=[0], blank="***mask***", header=False),
        {"a.tsv": "2\tx\tthe keys to it ***mask*** here .\tare\tis\n"},
        [Cloze("the keys to it [MASK] here .", "are", "is", ("2",))],
    ),
    "facts": (
        lambda d: read_facts(d / "place_test.jsonl"),
        {"place_test.jsonl": [{"obj_label": "Rome", "masked_sentences": ["It is in [MASK].", "Or not."]},
                              {"obj_label": "dog", "masked_sentence": "A [MASK] barks.", "predicate_id": "P1"}]},
        [Cloze("It is in [MASK]. Or not.", "Rome", groups=("place",)), Cloze("A [MASK] barks.", "dog", groups=("P1",))],
    ),
    # A fact that is there twice is asked once.
    **{f"facts in the template of their relation, {kind}": (
        lambda d, kind=kind: facts_of(d, {"P19": TEMPLATE} if kind == "given" else d / "relations"),
        {"facts.jsonl": [FACT, FACT], "relations": [{"relation": "P19", "template": TEMPLATE}]},
        [Cloze("Dante was born in [MASK] .", "Florence", groups=("P19",))],
    ) for kind in ("given", "of a file")},
    "edges": (
        edges_of, edges(EDGE, {"span1": [2, 3], "span2": [0, 2], "label": ["arg0", "agent"]}),
        [EdgeSentence(("The", "bee", "landed", "."),
                      (Edge((1, 2), None, ("NN",)), Edge((2, 3), (0, 2), ("arg0", "agent"))))],
    ),
    "SentEval": (
        senteval_of, {"past_present.txt": "tr\tPAST\tHe left .\nva\tPRES\tShe runs\nte\tPAST\tIt ended .\n"},
        {"words": [["He", "left", "."], ["She", "runs"], ["It", "ended", "."]], "labels": ["PAST", "PRES", "PAST"],
         "splits": ["train", "validation", "test"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_files_are_read_exactly(name, tmp_path):
    call, files, expected = READ[name]
    found = call(write_files(tmp_path, files))
    if isinstance(expected, list):
        assert found == expected
        return
    assert {name: getattr(found, name) for name in expected} == expected
    assert len(found) == len(next(iter(expected.values())))


@pytest.mark.parametrize(
    ("content", "options", "words", "labels", "names"),
    [
        (TAGS, {"tag_column": 1}, TAGGED_WORDS, [[1, 0], [1, 1]], ("NN", "NNP")),
        (TAGS, {"word_column": -2, "tag_column": 0, "label_names": ("John", "Smith", "U.N.", "official")},
         [["NNP", "NN"], ["NNP", "NNP"]], [[2, 3], [0, 1]], ("John", "Smith", "U.N.", "official")),
        ("a\nb\n\nc\n", {"tag_column": None}, [["a", "b"], ["c"]], None, ()),
        # Tabs cut columns where the first line has one, and words may hold spaces; Unicode's always.
        ("New York\tB-LOC\n 1\u00a02 \tO\n", {}, [["New York", " 1\u00a02 "]], [[1, 0]], ("O", "B-LOC")),
        ("1\u00a02 O\n\u3000 O\na\x85b O\n", {}, [["1\u00a02", "\u3000", "a\x85b"]], [[0, 0, 0]], ("O",)),
        # Names in an order of their own.
        ("x B-b\nx I-b\nx E-b\n\nx S-b\nx O\n\nx B-a\nx E-a\n", {}, [["x"] * 3, ["x"] * 2, ["x"] * 2],
         [[3, 4, 5], [6, 0], [1, 2]], ("O", "B-a", "E-a", "B-b", "I-b", "E-b", "S-b")),
        ("x B-a\nx E-a\n\nx S-b\nx O\n", {}, [["x"] * 2, ["x"] * 2], [[1, 2], [3, 0]], ("O", "B-a", "E-a", "S-b")),
        (TAGS, {"label_names": ("B-PER", "I-PER", "O", "B-ORG")}, TAGGED_WORDS, [[3, 2], [0, 1]], ("B-PER", "I-PER", "O", "B-ORG")),
        (TAGS, {"label_names": ("O", "B-ORG"), "allow_unseen": True}, TAGGED_WORDS, [[1, 0], [2, 3]],
         ("O", "B-ORG", "B-PER", "I-PER")),
        ("a I-x\nb B-x\nc O\n", {"scheme": "IOBES"}, [["a", "b", "c"]], [[1, 1, 0]], ("O", "S-x")),
        (b"caf\xe9 O\n", {"encoding": "latin-1"}, [["café"]], [[0]], ("O",)),
        # Any separator, line end, and number of blank lines at the end.
        *((TAGS.removesuffix("\n").replace(" ", separator).replace("\n", line_end) + end, {}, TAGGED_WORDS, [[1, 0], [2, 3]],
           ("O", "B-ORG", "B-PER", "I-PER"))
          for separator in (" ", "   ", "\t") for line_end in ("\n", "\r\n") for end in ("", "\n", "\n\n")),
    ],
)  # fmt: skip
def test_columns_of_tags_are_read_as_asked_for(tmp_path, content, options, words, labels, names):
    split = tags_of(write_files(tmp_path, {"a.txt": content}), **options)
    assert (split.words, split.labels, split.label_names) == (words, labels, names)
    assert split.scheme == options.get("scheme", split.scheme)
    assert len(split) == len(words)


def test_conll_2003_is_read_from_either_kind_of_file(tmp_path):
    official = write_files(tmp_path / "official", {"eng.testa": conll("I-ORG", "B-ORG")})
    passed_on = write_files(tmp_path / "passed_on", {"valid.txt": conll("B-ORG", "B-ORG")})
    split = tagging.load_conll("conll2003", "validation", official)
    assert split == tagging.load_conll("conll2003", "validation", passed_on)
    assert split.label_names[:3] == ("O", "B-PER", "I-PER") and split.labels == [[3, 3]]
    in_iobes = tagging.load_conll("conll2003", "validation", official, scheme="IOBES")
    assert [in_iobes.label_names[i] for i in in_iobes.labels[0]] == ["S-ORG", "S-ORG"]
    assert len(in_iobes.label_names) == 17


def test_data_sets_of_mrqa_are_found_by_the_names_of_the_release_and_of_its_scripts(tmp_path):
    files = {
        "train/TriviaQA-web": "t",
        "train/NaturalQuestions": "n",
        "dev/DuoRC.ParaphraseRC": "d",
    }
    write_files(tmp_path, {f"{n}.jsonl.gz": mrqa_lines(asked(id)) for n, id in files.items()})
    names = ("TriviaQA", "NaturalQuestions")
    assert [e.id for e in mrqa.load_mrqa("train", tmp_path, names).examples] == ["t", "n"]
    assert [e.id for e in mrqa.load_mrqa("test", tmp_path, ("DuoRC",)).examples] == ["d"]


def test_what_is_left_out_or_differs_is_said(tmp_path, caplog):
    nli.load_snli("validation", write_files(tmp_path, {"snli_1.0_dev.txt": SNLI}))
    assert "snli_1.0_dev.txt: left out 1 of 3 pairs" in caplog.text
    other = [{"text": "The CAT!", "char_spans": [[21, 23], [22, 24]]}]
    write_files(tmp_path, {"a.jsonl": mrqa_lines(asked(), asked("q2", detected_answers=other))})
    assert mrqa_of(tmp_path).examples[1].answers == (Answer("cat", 21), Answer("at ", 22))
    assert "of 2 questions, 1 have spans that differ" in caplog.text and "['q2']" in caplog.text


def test_xnli_is_measured_in_every_language_of_its_file(tmp_path):
    data = nli.load_xnli("test", write_files(tmp_path, {"xnli.test.tsv": XNLI}))
    found = nli.accuracies(data, np.eye(3)[[1, 2, 1, 0]])
    assert found == {"accuracy": 0.75, "accuracy_de": 0.5, "accuracy_fr": 1.0}


# --- What is refused ---


@pytest.mark.parametrize(
    ("call", "files", "words"),
    [
        (lambda d: choices.load_swag("train", d), {"train.csv": SWAG.replace("h,3", "h,4")}, "train.csv, line 3: the right choice is '4'"),
        (lambda d: choices.load_swag("validation", d), {"val.csv": UNLABELLED}, "val.csv, line 1: there is no column 'label'"),
        (lambda d: choices.load_swag("test", d), {}, "test.csv. data_dir must be the folder `data`"),
        (lambda d: choices.load_swag("val", d), {}, "SWAG has no split 'val'"),
        (race_of, bad_passage(answers=["D"]), "7.txt: there are 2 questions, 2 lists of options and 1 answers"),
        (race_of, bad_passage(answers=["D", "E"]), "7.txt, question 1: the right choice is 'E'; it must be one of"),
        (race_of, bad_passage(answers=["D", ""]), ", question 1: the right choice is ''"),
        (race_of, bad_passage(answers=["D", 0]), ", question 1: 'answers' is 0, expected a string"),
        (race_of, bad_passage(options=[["a", "b", "c", "d"], ["a", "b"]]), ", question 1: the options are"),
        (race_of, bad_passage(options=[["a", "b", "c", None]] * 2), ", question 0: 'options' is None"),
        (race_of, bad_passage(article=None), "7.txt: article is None; it must be a string"),
        (lambda d: choices.load_race("dev", "all", d), {}, "no split 'dev'; choose one of ['train', 'validation'"),
        (lambda d: choices.load_race("train", "college", d), {}, "no level 'college' | ['middle', 'high', "),
        (lambda d: choices.load_race("validation", "all", d), {}, "1.txt. data_dir must be"),
        (lambda d: nli.load_snli("train", d), {"snli_1.0_train.txt": SNLI.replace("entailment", "maybe")}, "train.txt, line 4: the label is 'maybe'"),
        (lambda d: nli.load_snli("dev", d), {}, "SNLI has no split 'dev'"),
        (lambda d: nli.load_xnli("train", d, ("it",)), {}, "XNLI has no language 'it'"),
        (lambda d: nli.load_xnli("train", d), {}, "multinli.train.en.tsv. data_dir must be"),
        (mrqa_of, bad_mrqa(detected_answers=[]), "a.jsonl, line 2, question 1: no answer was detected in the context"),
        (mrqa_of, bad_mrqa(detected_answers=[{"text": "cat", "char_spans": [[40, 50]]}]), "the span [40, 50] must be [first, last] character"),
        (mrqa_of, bad_mrqa(detected_answers=[{"text": "cat", "char_spans": [[5, 4]]}]), "the span [5, 4] must be"),
        (mrqa_of, bad_mrqa(answers=[]), "question 1: 'answers' is empty"),
        (mrqa_of, bad_mrqa(question=None), "question 1: question is None"),
        (mrqa_of, {"a.jsonl": mrqa_lines(asked(), asked())}, "question 2: the qid 'q1' has occurred before"),
        (lambda d: mrqa.load_mrqa("train", d), {}, "SQuAD.jsonl.gz"),
        (lambda d: mrqa.load_mrqa("test", d, ("SQuAD",)), {}, "MRQA's split test has no data set 'SQuAD'"),
        # An answer that is elsewhere is named with its place.
        *((squad_of, {"a.json": article(question("q0"), question(answers=[(text, start)]))},
           f"a.json, article 1 ('Cafés'), paragraph 1, question 2 ('q1'): at character {start} the context has {there} "
           f"instead of the answer {text!r}. {advice}")
          for text, start, there, advice in (
            ("Paris", 11, "'aris,'", "The context has it at 10. Correct answer_start, which counts characters"),
            ("Paris", 31, "'n Par'", "The context has it at 33"),
            ("Paris", -29, "''", "The context has it at 10"),
            ("Paris", 99, "''", "The context has it at 33"),
            ("London", 10, "'Paris,'", f"The context of {len(CONTEXT)} characters does not contain it"))),
        *((squad_of, {"a.json": article(question("q0"), bad)}, f"a.json, article 1 ('Cafés'), paragraph 1, question 2 | {words}")
          for bad, words in (
            (question(answers=()), "('q1'): there is no answer. Set is_impossible"),
            (question(is_impossible=True), "('q1'): is_impossible is true, but there are answers"),
            (question(is_impossible="no"), "is_impossible is 'no'; it must be true or false"),
            (question(answers=[("", 3)]), "the text of an answer is empty"),
            (question(answers=[("Paris", "10")]), "answer_start is '10'; it must be a whole number"),
            (question(answers=[("Paris", True)]), "answer_start is True; it must be a whole number"),
            (question(answers=[(5, 10)]), "text is 5; it must be a string"),
            (question(id=7), ": id is 7; it must be a string"),
            ({"id": "q1", "answers": []}, "'question' is missing; the keys are ['id', 'answers']"),
            ({"id": "q1", "question": "?"}, "'answers' is missing"),
            ("q1", "question 2 is 'q1'; it must be a JSON object"),
            (question("q0"), "('q0'): this id has occurred before"))),
        (squad_of, {"a.json": " \n"}, "a.json is empty"),
        (squad_of, {"a.json": '{"data": []}'}, "a.json has no questions"),
        (squad_of, {"a.json": "[]"}, "a.json is []; it must be a JSON object"),
        (squad_of, {"a.json": '{"version": "2.0"}'}, "a.json | 'data' is missing"),
        (squad_of, {"a.json": '{"data": [{"title": "a"}]}'}, "a.json, article 1: 'paragraphs' is missing"),
        (squad_of, {"a.json": '{"data":\n [,]}'}, "line 2: this is not JSON (Expecting value at character 3"),
        (squad_of, {"a.json": b'{"data":\n\n "caf\xe9"}'}, "line 3: this is not UTF-8"),
        (squad_of, {"a.json": '{"data": [{"paragraphs": [], "title": "\\ud800"}]}'}, "'title' is | contains a lone surrogate"),
        (lambda d: squad.load_squad("2", "train"), {}, "no version '2'; choose one of ['1.1', '2.0']"),
        (lambda d: squad.load_squad("2.0", "dev"), {}, "no split 'dev'; choose one of ['train', 'validation']"),
        (lambda d: squad.load_squad("2.0", "train", d), {}, "train-v2.0.json. data_dir must be the folder"),
        *((lambda d, options=options: tags_of(d, **options), {"a.txt": content}, f"a.txt{words}")
          for content, options, words in (
            (TAGS + "alone\n", {}, ", line 9: found 1 columns in 'alone', expected 3 as on the first"),
            (TAGS + "a b c d\n", {}, ", line 9: found 4 columns in 'a b c d', expected 3"),
            ("a\tO\n\tO\n", {}, r", line 2: column 0 of '\tO' is empty"),
            (TAGS, {"tag_column": 3}, ": there is no column 3; the file has 3 columns"),
            (TAGS, {"label_names": ("O", "B-PER", "I-PER")}, ", line 3: the tag is 'B-ORG', expected one of ['O', 'B-PER', 'I-PER']. Did"),
            (TAGS, {"tag_column": 1, "scheme": "IOB2"}, ", line 3: the tag 'NNP' breaks IOB2, and no other"),
            ("a B-x\nb I-x\n\nc I-x\n", {"scheme": "IOBES"}, ", line 4: the tag 'I-x' breaks IOB2, and no other scheme fits"),
            ("", {}, " has no words"),
            ("\n-DOCSTART- -X- O\n\n", {}, " has no words"),
            (b"caf\xe9 O\n", {}, ", line 1: this is not UTF-8"),
            ("a O\n" + "b" * 99 + " O\n", {"max_line_bytes": 50}, ", line 2: the line is longer than"))),
        (lambda d: tags_of(d, label_names=("O", "O")), {"a.txt": TAGS}, "label_names must differ from each other"),
        (lambda d: tags_of(d, scheme="BIO"), {"a.txt": TAGS}, "There is no tag scheme 'BIO'"),
        (lambda d: tagging.convert_tags(["O", "NN"], "IOB2"), {}, "'NN' is not a tag of a scheme"),
        (lambda d: tagging.convert_tags(["O"], "BIO"), {}, "no tag scheme 'BIO'; choose one of ['IOB2', "),
        (lambda d: tagging.load_conll("conll", "train", d), {}, "no tagging task 'conll'; choose one of ['conll20"),
        (lambda d: tagging.load_conll("conll2000", "validation", d), {}, "no split 'validation' | ['train', 'test']"),
        (lambda d: tagging.load_conll("conll2003", "test", d), {}, "eng.testb or | test.txt. data_dir must"),
        (facts_of, {"facts.jsonl": '{"obj_label": "x"}'}, "facts.jsonl, line 1: 'masked_sentence' is missing"),
        (facts_of, {"facts.jsonl": [{"obj_label": "x", "masked_sentences": ["a [MASK]"]}, {"masked_sentence": "a [MASK]"}]},
         "line 2: 'obj_label' is missing"),
        (facts_of, {"facts.jsonl": [{"obj_label": "x", "masked_sentence": "no"}]}, "line 1: The text 'no' has no blank. Write [MASK]"),
        (lambda d: facts_of(d, {"P1": "[X] [Y]"}), {"facts.jsonl": [{"obj_label": "x", "sub_label": "y"}]},
         "relation 'facts' has no template. There are templates for ['P1']"),
        (facts_of, {"facts.jsonl": "{"}, "line 1: this is not JSON"),
        (read_minimal_pairs, {}, "has no files that end in '.jsonl'"),
        (lambda d: read_cloze(d / "items.tsv", "text", "answer"), {"items.tsv": "text\tanswer\nthe [MASK]\tcat\nthe\tcat\n"},
         "items.tsv, line 3: The text 'the' has no blank"),
        *((edges_of, edges(EDGE | change), f"train.json, line 1: {words}")
          for change, words in (
            ({"span1": [2, 2]}, "the span is [2, 2], expected [first word, word after the last] in a text of 4"),
            ({"span1": [3, 5]}, "the span is [3, 5]"),
            ({"span2": [0, 1, 2]}, "the span is [0, 1, 2]"),
            ({"span2": "ab"}, "the span is 'ab'"),
            ({"label": None}, "'label' is None, expected a string"),
            ({"label": [3]}, "'label' is 3, expected a string"))),
        *((senteval_of, {"past_present.txt": f"tr\tPAST\tHe left .\n{line}\n"}, f"past_present.txt, line 2: {words}")
          for line, words in (
            ("dev\tPAST\tHe left", "the split is 'dev'; it must be one of ['tr', 'va', 'te']"),
            ("tr\tPAST\t ", "the text has no words"),
            ("tr\tPAST", "found 2 fields, expected 3"))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_an_error_names_file_and_place(call, files, words, tmp_path):
    assert_refused(lambda: call(write_files(tmp_path, files)), words)


# --- Schemes of tags ---

# Spans of a sentence of seven words, and their tags in each scheme.
SPANS = [Span(0, 1, "PER"), Span(1, 3, "PER"), Span(3, 6, "LOC")]
SCHEMES = {
    "IOB1": ["I-PER", "B-PER", "I-PER", "I-LOC", "I-LOC", "I-LOC", "O"],
    "IOB2": ["B-PER", "B-PER", "I-PER", "B-LOC", "I-LOC", "I-LOC", "O"],
    "IOBES": ["S-PER", "B-PER", "E-PER", "B-LOC", "I-LOC", "E-LOC", "O"],
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_spans_and_tags_of_each_scheme(scheme):
    assert tagging.spans(SCHEMES[scheme]) == SPANS
    assert tagging.span_tags(SPANS, 7, scheme) == SCHEMES[scheme]
    assert tagging.recognise_scheme([SCHEMES[scheme]]) == scheme
    for tags in SCHEMES.values():
        assert tagging.convert_tags(tags, scheme) == SCHEMES[scheme]
    # All ways to cut five words into spans of two types and words outside.
    for tags in itertools.product(["O", "B-a", "I-a", "B-b", "I-b"], repeat=5):
        sentence_spans = tagging.spans(tags)
        assert tagging.spans(tagging.span_tags(sentence_spans, 5, scheme)) == sentence_spans


def test_types_may_hold_hyphens_and_may_be_missing():
    assert tagging.convert_tags(["B-a-b", "I-a-b", "O"], "IOBES") == ["B-a-b", "E-a-b", "O"]
    assert tagging.convert_tags(["B", "I", "B"], "IOBES") == ["B", "E", "S"]


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        ([["O"], ["I-a", "I-a"]], "IOB1"),
        ([["O"], ["B-a", "I-a"]], "IOB2"),
        ([["B-a", "E-a"]], "IOBES"),
        ([["O", "O"]], "IOB2"),
        *(([tags], None) for tags in (["B-a", "I-b"], ["NN", "DT"], ["B-a", "O-a"], ["-"])),
        ([["B-a"], ["I-a"]], None),
    ],
)
def test_schemes_are_recognised(sentences, scheme):
    assert tagging.recognise_scheme(sentences) == scheme


# --- TensorFlow Datasets ---


def test_snli_and_xnli_of_tensorflow_datasets(fake_tfds, tmp_path):
    write_files(tmp_path, {"snli_1.0_test.txt": SNLI})
    ids = {"neutral": 1, "-": -1, "entailment": 0}
    snli = [
        {"premise": a.encode(), "hypothesis": b.encode(), "label": np.int64(ids[label])}
        for label, _, _, a, b, _ in SNLI_ROWS
    ]
    fake_tfds(lambda name, split: {("snli", "test"): snli}[name, split])
    assert nli.load_snli("test") == nli.load_snli("test", tmp_path)
    texts = np.array([b"Bien.", b"Gut.", b"Well."], object)
    pair = {
        "premise": {"de": b"Ja.", "fr": b"Oui.", "en": b"Yes."},
        "hypothesis": {"language": np.array([b"fr", b"de", b"en"], object), "translation": texts},
        "label": np.int64(2),
    }
    fake_tfds(lambda name, split: {("xtreme_xnli", "train"): [pair]}[name, split])
    data = nli.load_xnli("train", languages=("fr", "de"))
    assert data.texts == (["Oui.", "Ja."], ["Bien.", "Gut."]) and data.labels == [2, 2]


NONE = {"text": np.array([], object), "answer_start": np.array([], np.int32)}


@pytest.mark.parametrize(
    ("version", "members", "asked"),
    [
        ("1.1", {}, question(answers=PLACES[:2])),
        (
            "2.0",
            {"is_impossible": np.True_, "answers": NONE, "plausible_answers": NONE},
            question(answers=(), is_impossible=True),
        ),
        ("1.1", {"context": CONTEXT[1:].encode()}, None),
    ],
)
def test_squad_of_tensorflow_datasets(version, members, asked, fake_tfds, tmp_path):
    texts, starts = np.array([b"Paris", b"Paris"], object), np.array([10, 33], np.int32)
    example = {
        **{"id": b"q1", "title": "Cafés".encode(), "question": b"Where?"},
        **{"context": CONTEXT.encode(), "answers": {"text": texts, "answer_start": starts}},
        **members,
    }
    fake_tfds(lambda name, split: {(f"squad/v{version}", "validation"): [example]}[name, split])
    if asked is None:
        # Versions of its data set before 3.0.0 took white space off the contexts.
        words = "squad/v1.1 of tensorflow_datasets, article 'Cafés'"
        assert_refused(lambda: squad.load_squad(version, "validation"), words)
        return
    write_files(tmp_path, {"a.json": article(asked)})
    assert squad.load_squad(version, "validation") == squad_of(tmp_path)


def test_files_and_tags_are_those_of_tensorflow_datasets():
    module = pytest.importorskip("tensorflow_datasets.datasets.squad.squad_dataset_builder")
    configs = {c.name: (c.train_file, c.dev_file) for c in module.Builder.BUILDER_CONFIGS}
    assert configs == {f"v{name}": tuple(files.values()) for name, files in squad.FILES.items()}
    lib = pytest.importorskip(
        "tensorflow_datasets.core.dataset_builders.conll.conll_dataset_builder_utils"
    )
    types_of = {name: task.types for name, task in tagging.DATA_SETS.items()}
    assert tagging.scheme_names(types_of["conll2003"], "IOB2") == lib.NER_TAGS
    assert tagging.scheme_names(types_of["conll2000"], "IOB2") == lib.CHUNK_TAGS


# --- The official files ---


def test_the_real_sample_of_squad_is_read_whole():
    sample = SHARED / "squad" / "squad_v2_sample.json"
    if not sample.is_file():
        pytest.skip("The sample of SQuAD 2.0 is not at ../shared/data/squad.")
    split = squad.read_squad(sample)
    assert (split.version, len(split)) == ("2.0", 3708)
    assert sum(example.is_impossible for example in split.examples) == 1987
    assert len({example.title for example in split.examples}) == 10
    assert split.examples[0].question == "In what country is Normandy located?"
    assert split.examples[0].answers == (Answer("France", 159),) * 4


@pytest.mark.parametrize(
    ("split", "sentences", "words", "chunks"),
    [("train", 8936, 211727, 106978), ("test", 2012, 47377, 23852)],
)
def test_real_conll_2000_has_its_known_counts(split, sentences, words, chunks):
    if not (SHARED / "tagging").is_dir():
        pytest.skip("CoNLL-2000's files are not at ../shared/data/tagging.")
    result = tagging.load_conll("conll2000", split, SHARED / "tagging")
    assert (len(result), sum(map(len, result.words))) == (sentences, words)
    assert len(result.label_names) == 23 and result.scheme == "IOB2"
    tags = [[result.label_names[i] for i in row] for row in result.labels]
    assert sum(len(tagging.spans(row)) for row in tags) == chunks
