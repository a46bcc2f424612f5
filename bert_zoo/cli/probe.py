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

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_zoo.cli import program
from bert_zoo.cli.program import Program

if TYPE_CHECKING:
    from bert_zoo.cli.probes import Outcome, Subject

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
_OTHERS = PROGRAM.list("beside", None, "Other models to probe for comparison.", check=program.model)
_RANDOM = PROGRAM.bool("random", True, "Also probe randomly initialised weights.")
_HIDDEN_SIZE = PROGRAM.integer(
    "hidden_size", None, "Hidden units of label probes; default: linear.", lower_bound=1
)
_RANK = PROGRAM.integer("rank", 64, "Rank of the tree probes.", lower_bound=1)
_SEEDS = PROGRAM.integer(
    "seeds",
    1,
    "Runs of each probe. Description lengths and layer mixtures use the first run only.",
    lower_bound=1,
)
_MAX_SENTENCES = PROGRAM.integer(
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
    from bert_zoo.cli.report import write_probing_report
    from bert_zoo.training.runs import versions
    from bert_zoo.weights.files import write_json

    sections, results, attention = [], {"model": _MODEL.value, "versions": versions()}, None
    for outcome in _outcomes(directory, name):
        print(f"\n{outcome.printed}", flush=True)
        sections.append(outcome.section)
        results[outcome.section.title] = outcome.numbers
        attention = outcome.attention or attention
        # Written after each analysis, so that a later failure loses none of the results.
        write_json(directory / "results.json", results)
        write_probing_report(directory / "report.html", name, sections, attention=attention)
    print(f"\nThe report is {directory / 'report.html'}")


def _outcomes(directory: Path, name: str) -> Iterator["Outcome"]:
    """Runs the analyses that the flags ask for."""
    import bert_zoo
    from bert_zoo import probing
    from bert_zoo.cli import probes
    from bert_zoo.data.edges import read_edges
    from bert_zoo.data.files import lines
    from bert_zoo.data.senteval import read_senteval
    from bert_zoo.data.tagging import read_tagging
    from bert_zoo.data.treebanks import read_treebank
    from bert_zoo.probing.labelled import SPLITS

    most, settings = slice(_MAX_SENTENCES.value), {"hidden_size": _HIDDEN_SIZE.value}
    of_layers = (_TREEBANK, _TAGGING, _EDGES, _SENTEVAL, _CORPUS)
    subject = _subject(directory, name) if any(flag.value for flag in of_layers) else None

    if _TREEBANK.value:
        treebank = read_treebank(_TREEBANK.value)[most]
        vectors = compared = subject.vectors("treebank", [sentence.words for sentence in treebank])
        tags = [sentence.tags for sentence in treebank]
        yield probes.labels_by_layer(
            subject, "Parts of speech", vectors, tags, None, of_words=True, **settings
        )
        yield probes.structure(subject, vectors, treebank, _RANK.value)
        yield probes.heads_if_any(subject, treebank)
        yield probes.geometry("Geometry", vectors)
    if _TAGGING.value:
        parts = []
        for path in _TAGGING.value:
            split = read_tagging(path)
            tags = [[split.label_names[i] for i in row] for row in split.labels]
            parts.append([*zip(split.words, tags, strict=True)][most])
        rows, splits = probes.in_splits(parts)
        words, tags = zip(*rows, strict=True)
        vectors = subject.vectors("tagging", words)
        yield probes.labels_by_layer(
            subject, "Tags", vectors, tags, splits, of_words=True, **settings
        )
    if _EDGES.value:
        rows, splits = probes.in_splits([read_edges(path)[most] for path in _EDGES.value])
        vectors = subject.vectors("edges", [row.words for row in rows])
        edges = [row.edges for row in rows]
        yield probes.labels_by_layer(subject, "Edges", vectors, edges, splits, **settings)
    if _SENTEVAL.value:
        data = read_senteval(_SENTEVAL.value)
        parts = {split: [] for split in SPLITS}
        for words, label, split in zip(data.words, data.labels, data.splits, strict=True):
            parts[split].append((words, label))
        rows, splits = probes.in_splits([part[most] for part in parts.values()])
        words, labels = zip(*rows, strict=True)
        vectors = subject.vectors("senteval", words)
        title = f"Sentences: {Path(_SENTEVAL.value).stem}"
        yield probes.labels_by_layer(subject, title, vectors, labels, splits, **settings)
    if _CORPUS.value:
        texts = [line for _, line in lines(Path(_CORPUS.value)) if line.strip()][most]
        vectors = compared = subject.vectors("corpus", texts)
        # The treebank's geometry already has a section of that title.
        yield probes.geometry("Geometry of the corpus" if _TREEBANK.value else "Geometry", vectors)
        for word in _WORD.value or ():
            yield probes.neighbours(vectors[name], word)
    if _FINE_TUNED.value:
        after = probing.compute_vectors(
            bert_zoo.load(_FINE_TUNED.value),
            compared[name].sentences,
            directory / "vectors" / "fine_tuned",
        )
        yield probes.fine_tuning(Path(_FINE_TUNED.value).name, compared[name], after)
    if _MINIMAL_PAIRS.value or _FACTS.value:
        model = _model_of_words()
        if _MINIMAL_PAIRS.value:
            yield probes.preferences(model, _MINIMAL_PAIRS.value)
        if _FACTS.value:
            yield probes.facts(model, _FACTS.value)


def _model_of_words() -> Any:
    """Loads the model with its masked-LM head or, without one, with its causal-LM head."""
    import bert_zoo
    from bert_zoo.models import CausalLM, MaskedLM

    try:
        return bert_zoo.load(_MODEL.value, task=MaskedLM.task)
    except ValueError as masked:
        try:
            return bert_zoo.load(_MODEL.value, task=CausalLM.task)
        except ValueError:
            raise ValueError(
                f"--minimal_pairs and --facts need a masked-LM or causal-LM head. {masked}"
            ) from None


def _subject(directory: Path, name: str) -> "Subject":
    import bert_zoo
    from bert_zoo import probing
    from bert_zoo.cli import probes

    models = {name: bert_zoo.load(_MODEL.value)}
    models |= {Path(other).name: bert_zoo.load(other) for other in _OTHERS.value or ()}
    if _RANDOM.value:
        models[probes.RANDOM] = probing.randomly_initialised(models[name])
    return probes.Subject(models, directory, range(_SEEDS.value))
