"""Probes what an encoder's layers know: parts of speech, trees, attention heads, neighbours.

bert_zoo probe --model minilm_l6 --treebank en_ewt-ud-test.conllu
bert_zoo probe --model bert_base --tagging train.txt,dev.txt,test.txt --hidden_size 64
bert_zoo probe --model minilm_l6 --corpus corpus.txt --word play
bert_zoo probe --model bert_base --minimal_pairs blimp/data --facts lama/TREx

The encoder stays frozen. Its vectors are computed once and stored in half
precision. A randomly initialised encoder of the same shape is the baseline. The
report and the attention maps that it links to are HTML pages. To resume a
stopped run, repeat the command.
"""

from pathlib import Path

from bert_zoo.cli import program
from bert_zoo.cli.program import Program

PROGRAM = Program(
    __doc__,
    on_interrupt="Stopped. Run the same command to continue with the vectors computed so far.",
)
_MODEL = PROGRAM.model(default="minilm_l6")
_TREEBANK = PROGRAM.string(
    "treebank",
    None,
    "CoNLL-U, or columns of word, tag and head: probes tags, trees, heads and geometry.",
    check=program.exists,
)
_TAGGING = PROGRAM.list(
    "tagging",
    None,
    "A word and its tag per line. One file, or train and test, or train, dev and test.",
    check=program.exists,
)
_EDGES = PROGRAM.list(
    "edges",
    None,
    "Edge-probing JSON Lines of spans and span pairs; files as for --tagging.",
    check=program.exists,
)
_SENTEVAL = PROGRAM.string(
    "senteval", None, "A SentEval probing file: split, label, sentence.", check=program.exists
)
_CORPUS = PROGRAM.string(
    "corpus",
    None,
    "Text, one sentence per line: geometry, and neighbours of --word.",
    check=program.exists,
)
_WORD = PROGRAM.list("word", None, "Words to find neighbours and occurrences of.")
_FINE_TUNED = PROGRAM.string(
    "fine_tuned",
    None,
    "A model fine-tuned from --model: how much each layer changed.",
    check=program.model,
)
_MINIMAL_PAIRS = PROGRAM.string(
    "minimal_pairs",
    None,
    "BLiMP's JSON Lines, file or folder: which sentence is likelier.",
    check=program.exists,
)
_FACTS = PROGRAM.string(
    "facts",
    None,
    "LAMA's JSON Lines, file or folder: which word fills a blank.",
    check=program.exists,
)
PROGRAM.list("beside", None, "Other models to probe for comparison.", check=program.model)
PROGRAM.bool("random", True, "Also probe randomly initialised weights.")
PROGRAM.integer(
    "hidden_size", None, "Hidden units of label probes; default: linear.", lower_bound=1
)
PROGRAM.integer("rank", 64, "Rank of the tree probes.", lower_bound=1)
PROGRAM.integer(
    "seeds",
    1,
    "Runs of each probe. Description lengths and layer mixtures use the first run only.",
    lower_bound=1,
)
PROGRAM.integer(
    "max_sentences",
    None,
    "Sentences per file; per split for --senteval. --minimal_pairs and --facts ignore it.",
    lower_bound=10,
)
_OUTPUT_DIR = PROGRAM.string("output_dir", None, "Where to write (default: runs/probe-<model>).")


def main(arguments: list[str]) -> None:
    files = (_TREEBANK, _TAGGING, _EDGES, _SENTEVAL, _CORPUS, _MINIMAL_PAIRS, _FACTS)
    if not any(flag.value for flag in files):
        named = ", ".join(f"--{flag.name}" for flag in files)
        raise ValueError(f"There is no data to probe with. Pass one or more of {named}.")
    if _WORD.value and not _CORPUS.value:
        raise ValueError("--word looks for neighbours in a text. Pass the text with --corpus.")
    if _FINE_TUNED.value and not (_TREEBANK.value or _CORPUS.value):
        raise ValueError(
            "--fine_tuned compares vectors of sentences. Pass sentences with --treebank or --corpus."
        )
    for flag in (_TAGGING, _EDGES):
        if flag.value and len(flag.value) > 3:
            raise ValueError(
                f"--{flag.name} names {len(flag.value)} files; it takes up to three: train, dev and test."
            )
    PROGRAM.check()
    name = Path(_MODEL.value).name
    directory = Path(_OUTPUT_DIR.value or f"runs/probe-{name}")
    directory.mkdir(parents=True, exist_ok=True)
    from bert_zoo.cli.probes import outcomes
    from bert_zoo.cli.report import write_probing_report
    from bert_zoo.training.runs import versions
    from bert_zoo.weights.files import write_json

    sections, results, attention = [], {"model": _MODEL.value, "versions": versions()}, None
    for outcome in outcomes(PROGRAM.flags, directory, name):
        print(f"\n{outcome.printed}", flush=True)
        sections.append(outcome.section)
        results[outcome.section.title] = outcome.numbers
        attention = outcome.attention or attention
        # Written after each analysis, so that a later failure loses none of the results.
        write_json(directory / "results.json", results)
        write_probing_report(directory / "report.html", name, sections, attention=attention)
    print(f"\nThe report is {directory / 'report.html'}")
