"""The analyses of `bert_zoo probe`: each returns a section of the report, a text to print and its numbers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import bert_zoo
from bert_zoo import charts, probing
from bert_zoo.cli.report import ATTENTION, Section
from bert_zoo.data.edges import read_edges
from bert_zoo.data.files import lines
from bert_zoo.data.fill_in import read_facts, read_minimal_pairs
from bert_zoo.data.senteval import read_senteval
from bert_zoo.data.tagging import read_tagging
from bert_zoo.data.treebanks import ParsedSentence, read_treebank
from bert_zoo.models import CausalLM, MaskedLM
from bert_zoo.models.base import ZooModel
from bert_zoo.probing import LayerCurve, LayerVectors, table_by_layer
from bert_zoo.probing.probes import SPLITS, sentence_splits

RANDOM = "random weights"
# Numbers of sentences: for comparing pairs of heads, drawn as trees, and shown on the attention page.
COMPARED_SENTENCES, DRAWN_TREES, SHOWN_SENTENCES = 300, 3, 8
# Lengths, in words, of the sentences whose trees are drawn.
DRAWN_LENGTHS = range(6, 21)


@dataclass(frozen=True)
class Outcome:
    """The result of an analysis."""

    section: Section
    printed: str
    numbers: dict[str, Any]  # its entry in results.json
    # The page of attention maps, if the analysis makes one.
    attention: charts.AttentionViewer | None = None


@dataclass(frozen=True)
class Subject:
    """The encoders that are probed side by side."""

    # Encoders by their name in the charts. The first is the one from --model.
    models: Mapping[str, ZooModel]
    directory: Path  # the folder that vectors are stored in
    seeds: range  # seeds of the probes, one run each

    @property
    def model(self) -> ZooModel:
        return next(iter(self.models.values()))

    def vectors(self, what: str, sentences: Sequence[Sequence[str]]) -> dict[str, LayerVectors]:
        """The vectors of sentences by each model; `what` names their folder."""
        return {
            name: probing.compute_vectors(
                model, sentences, self.directory / "vectors" / what / name.replace(" ", "_")
            )
            for name, model in self.models.items()
        }


def outcomes(flags: Any, directory: Path, name: str) -> Iterator[Outcome]:
    """Runs the analyses that the program's flags ask for; `name` is that of the model in the charts."""
    most, settings = slice(flags.max_sentences), {"hidden_size": flags.hidden_size}
    of_layers = (flags.treebank, flags.tagging, flags.edges, flags.senteval, flags.corpus)
    subject = _subject(flags, directory, name) if any(of_layers) else None

    if flags.treebank:
        treebank = read_treebank(flags.treebank)[most]
        vectors = compared = subject.vectors("treebank", [sentence.words for sentence in treebank])
        tags = [sentence.tags for sentence in treebank]
        yield labels_by_layer(
            subject, "Parts of speech", vectors, tags, None, of_words=True, **settings
        )
        yield structure(subject, vectors, treebank, flags.rank)
        yield heads_if_any(subject, treebank)
        yield geometry("Geometry", vectors)
    # What is probed for -> the section's title, and a function that reads (words, label) rows from each file.
    labelled = {
        "tagging": ("Tags", lambda paths: [_tagged(path) for path in paths]),
        "edges": ("Edges", lambda paths: [_with_edges(path) for path in paths]),
        "senteval": (f"Sentences: {Path(flags.senteval or '').stem}", _sentences),
    }
    for what, (title, read) in labelled.items():
        if source := flags[what].value:
            rows, splits = in_splits([part[most] for part in read(source)])
            words, labels = zip(*rows, strict=True)
            vectors, of_words = subject.vectors(what, words), what == "tagging"
            yield labels_by_layer(
                subject, title, vectors, labels, splits, of_words=of_words, **settings
            )
    if flags.corpus:
        texts = [line for _, line in lines(Path(flags.corpus)) if line.strip()][most]
        vectors = compared = subject.vectors("corpus", texts)
        # The treebank's geometry already has a section of that title.
        yield geometry("Geometry of the corpus" if flags.treebank else "Geometry", vectors)
        for word in flags.word or ():
            yield neighbours(vectors[name], word)
    if flags.fine_tuned:
        after = probing.compute_vectors(
            bert_zoo.load(flags.fine_tuned),
            compared[name].sentences,
            directory / "vectors" / "fine_tuned",
        )
        yield fine_tuning(Path(flags.fine_tuned).name, compared[name], after)
    if flags.minimal_pairs or flags.facts:
        model = _model_of_words(flags.model)
        if flags.minimal_pairs:
            yield preferences(model, flags.minimal_pairs)
        if flags.facts:
            yield facts(model, flags.facts)


def _tagged(path: str) -> list[tuple[Any, Any]]:
    data = read_tagging(path)
    tags = [[data.label_names[i] for i in row] for row in data.labels]
    return [*zip(data.words, tags, strict=True)]


def _with_edges(path: str) -> list[tuple[Any, Any]]:
    return [(row.words, row.edges) for row in read_edges(path)]


def _sentences(path: str) -> list[list[tuple[Any, Any]]]:
    """The rows of each split."""
    data = read_senteval(path)
    rows = [*zip(data.words, data.labels, data.splits, strict=True)]
    return [[row[:2] for row in rows if row[2] == split] for split in SPLITS]


def _model_of_words(name: str) -> ZooModel:
    """Loads the model with its masked-LM head or, without one, with its causal-LM head."""
    try:
        return bert_zoo.load(name, task=MaskedLM.task)
    except ValueError as masked:
        try:
            return bert_zoo.load(name, task=CausalLM.task)
        except ValueError:
            raise ValueError(
                f"--minimal_pairs and --facts need a masked-LM or causal-LM head. {masked}"
            ) from None


def _subject(flags: Any, directory: Path, name: str) -> Subject:
    models = {name: bert_zoo.load(flags.model)}
    models |= {Path(other).name: bert_zoo.load(other) for other in flags.beside or ()}
    if flags.random:
        models[RANDOM] = probing.randomly_initialised(models[name])
    return Subject(models, directory, range(flags.seeds))


# --- Analyses ---


def labels_by_layer(
    subject: Subject,
    title: str,
    vectors: Mapping[str, LayerVectors],
    labels: Sequence[Any],
    splits: Sequence[str] | None,
    *,
    of_words: bool = False,
    **settings: Any,
) -> Outcome:
    """Label probes; for word labels also control tasks and description lengths."""
    found = {
        name: probing.probe_layers(
            each, labels, splits=splits, control=of_words, seeds=subject.seeds, **settings
        )
        for name, each in vectors.items()
    }
    metrics = {"score": {name: probes.score for name, probes in found.items()}}
    first = next(iter(found.values()))
    about = (
        f"One probe per layer, trained on {first.num_train:,} and measured on {first.num_test:,} items; the encoder "
        f"stays frozen. Always guessing the most frequent label scores {first.majority:.3f}."
    )
    if of_words:
        metrics["selectivity"] = {name: probes.selectivity for name, probes in found.items()}
        lengths = {
            name: probing.description_lengths(
                each, labels, splits=splits, seeds=subject.seeds[:1], **settings
            )
            for name, each in vectors.items()
        }
        metrics["compression"] = {name: each.compression for name, each in lengths.items()}
        about += (
            " Selectivity is the accuracy minus the accuracy on random word labels. Compression is the length of a "
            "uniform code of the labels, divided by the length of an online code that uses the layer's vectors."
        )
    vectors_of_first = next(iter(vectors.values()))
    if len({*vectors_of_first.sizes}) == 1:
        mixes = probing.mix_layers(
            vectors_of_first, labels, splits=splits, seeds=subject.seeds[:1], **settings
        )
        about += (
            f" A trained mixture of all layers has its centre of gravity at layer {mixes.centre_of_gravity[0]:.2f}. "
            f"Weighted by how much each layer adds to the score, the mean layer is {mixes.expected_layer[0]:.2f} "
            "(Tenney et al. 2019)."
        )
    if len(subject.seeds) > 1:
        about += (
            f" Scores and selectivity are means of {len(subject.seeds)} runs; the other numbers come from the first "
            "run only."
        )
    baselines = {"score": {"most frequent label": first.majority}}
    return _by_layer(title, about, metrics, baselines)


def structure(
    subject: Subject,
    vectors: Mapping[str, LayerVectors],
    treebank: Sequence[ParsedSentence],
    rank: int,
) -> Outcome:
    """Structural probes of distances and depths, and a few drawn trees."""
    metrics, baselines, trees = {}, {}, {}
    for quantity in ("distance", "depth"):
        for name, each in vectors.items():
            probe = probing.structural_probe(
                each, treebank, quantity, rank=rank, seeds=subject.seeds
            )
            for curve, baseline in zip(
                (probe.score, probe.correlation), probe.baseline, strict=True
            ):
                metrics.setdefault(curve.name, {})[name] = curve
                baselines[curve.name] = {"each word under the one before": baseline}
            if not trees:
                trees = _trees(probe, each, treebank)
    about = (
        f"Linear maps of rank {rank}, trained so that the distance between two words is their distance in the tree, and "
        "a word's norm its depth (Hewitt and Manning 2019). UUAS is the share of edges that the minimum spanning "
        "tree finds; DSpr. and NSpr. are rank correlations. Every tenth sentence is for testing."
    )
    outcome = _by_layer("Trees", about, metrics, baselines)
    section = replace(outcome.section, charts=outcome.section.charts | trees)
    return replace(outcome, section=section)


def _trees(probe, vectors: LayerVectors, treebank: Sequence[ParsedSentence]) -> dict[str, Any]:
    """Draws a few test sentences: the gold tree above, the best layer's prediction below."""
    splits = sentence_splits(None, len(treebank))
    test = (n for n, split in enumerate(splits) if split == "test")
    numbers = [*islice((n for n in test if len(treebank[n]) in DRAWN_LENGTHS), DRAWN_TREES)]
    layer = probe.score.best_layer
    return {
        f"Layer {layer}: gold above, predicted below ({number})": charts.dependency_tree(
            treebank[number].words,
            treebank[number].heads,
            sorted(tree.predicted),
            relations=treebank[number].relations,
        )
        for number, tree in zip(numbers, probe.trees(vectors, treebank, numbers), strict=True)
    }


def heads_if_any(subject: Subject, treebank: Sequence[ParsedSentence]) -> Outcome:
    """As `heads`; for an encoder without attention maps, such as an LSTM, only the reason."""
    try:
        return heads(subject, treebank)
    except ValueError as reason:
        text = f"Heads are left out. {reason}"
        return Outcome(Section("Heads", text), text, {"left out": str(reason)})


def heads(subject: Subject, treebank: Sequence[ParsedSentence]) -> Outcome:
    """Attention heads: relations, patterns, distances, and the page of attention maps."""
    model = subject.model
    shown = [s.words for s in treebank if len(s) in DRAWN_LENGTHS][:SHOWN_SENTENCES]
    viewer = charts.attention_viewer(
        [probing.attention_maps(model, sentence) for sentence in shown]
    )
    relations = probing.head_relations(model, treebank)
    patterns = probing.head_patterns(model, treebank)
    distances = probing.head_distances(model, treebank[:COMPARED_SENTENCES])
    layers, number = patterns.entropy.shape
    maps = {**patterns.shares, "entropy in nats": patterns.entropy}
    link = f"{ATTENTION}#layer={{row}}&head={{column}}"
    drawn = {
        (f"attention to {name}" if name in patterns.shares else name): charts.heat_map(
            values, range(layers), range(number), name=name, link=link
        )
        for name, values in maps.items()
    }
    names = [f"{layer}-{head}" for layer in range(layers) for head in range(number)]
    drawn["heads that attend alike lie together"] = charts.scatter(
        distances.coordinates().reshape(-1, 2), names, [name.split("-")[0] for name in names]
    )
    best = [
        {name.replace("_", " "): value for name, value in row._asdict().items()}
        for row in relations.best_heads()
    ]
    label = "part of speech of the dependent" if treebank[0].relations is None else "relation"
    section = Section(
        "Heads",
        f"How often the word that a head attends to most is the syntactic head, by {label}, and how often the best fixed "
        f"offset is. Measured on {relations.sentences:,} sentences. Layers and heads are counted from 0. A click on a "
        "cell of a map opens the attention of that head.",
        drawn,
        {"The best head of each": best},
    )
    numbers = {"best heads": best, "entropy": patterns.entropy.tolist()}
    numbers |= {f"attention to {name}": values.tolist() for name, values in patterns.shares.items()}
    return Outcome(section, f"Heads\n{section.text}\n{relations}", numbers, viewer)


def geometry(title: str, vectors: Mapping[str, LayerVectors]) -> Outcome:
    metrics: dict[str, dict[str, LayerCurve]] = {}
    for name, each in vectors.items():
        measured = probing.measure_geometry(each)
        for curve in measured.curves():
            metrics.setdefault(curve.name, {})[name] = curve
    about = (
        "Self-similarity is the mean cosine between a word's occurrences, and intra-sentence similarity the mean cosine "
        "between a sentence's words and their mean. Explainable variance is the share of the variance of a "
        "word's vectors along one direction: how well one static vector could replace them. All three are corrected by "
        "their value for random words (Ethayarajh 2019)."
    )
    return _by_layer(title, about, metrics, {})


def fine_tuning(name: str, before: LayerVectors, after: LayerVectors) -> Outcome:
    found = probing.cka(before, after)
    about = (
        f"Linear CKA between the layers before fine-tuning and those of {name}, on the same sentences: 1 if a layer was at "
        "most rotated and rescaled (Kornblith et al. 2019)."
    )
    outcome = _by_layer("Fine-tuning", about, {"CKA": {name: found.by_layer()}}, {})
    rows, columns = map(range, found.values.shape)
    heat = charts.heat_map(
        found.values, rows, columns, name="CKA", row_axis="before", column_axis="after"
    )
    section = replace(outcome.section, charts=outcome.section.charts | {"all pairs": heat})
    return replace(outcome, section=section)


def neighbours(vectors: LayerVectors, word: str) -> Outcome:
    """Finds the nearest neighbours of a word in its contexts, and maps its occurrences."""
    layers = {"middle": vectors.num_layers // 2, "last": vectors.num_layers - 1}
    found = {
        layer: probing.neighbours(None, word, vectors, layer=layer) for layer in layers.values()
    }
    tables = {
        f"Layer {layer}: {context.occurrence}": [
            {"neighbour": str(each.occurrence), "cosine": each.similarity}
            for each in (*context.same_word, *context.other_words)
        ]
        for layer, result in found.items()
        for context in result.in_context
    }
    last = found[layers["last"]]
    tables["Without context"] = [{"word": w, "cosine": cosine} for w, cosine in last.static]
    drawn = {}
    for layer in layers.values():
        placed = probing.map_occurrences(vectors, word, layer=layer)
        texts = [str(each) for each in placed.occurrences]
        drawn[f"{word} in layer {layer}"] = charts.scatter(placed.points, texts, name="occurrences")
    section = Section(
        f"Neighbours of {word!r}",
        "The occurrences with the nearest vectors, first of the word itself, then of other words. The map shows all "
        "occurrences of the word by their first two principal components.",
        drawn,
        tables,
    )
    lines = [section.title, *(f"Layer {layer}\n{result}" for layer, result in found.items())]
    return Outcome(section, "\n".join(lines), tables)


def preferences(model_of_words: ZooModel, path: str) -> Outcome:
    found = probing.judge_pairs(model_of_words, read_minimal_pairs(path))
    about = "How often the grammatical sentence of a pair is the likelier one. Guessing scores 0.5."
    return _by_group("Minimal pairs", about, found)


def facts(model_of_words: ZooModel, path: str) -> Outcome:
    found = probing.recall_facts(model_of_words, read_facts(path))
    about = (
        "How often the answer is the likeliest word in the blank (P@1) or among the ten likeliest (P@10), and the mean of "
        f"1 / rank (MRR). Guessing gives a P@1 of {found.chance:.4f}."
    )
    return _by_group("Facts", about, found)


# --- What they share ---


def _by_group(title: str, about: str, found: Any) -> Outcome:
    """An outcome with the answers grouped by what the items test."""
    groups = {
        **(found.by_group() if any(item.groups for item in found.items) else {}),
        "all": found,
    }
    rows = [
        {"group": name, **each.numbers(), "asked": asked, "not asked": len(each.items) - asked}
        for name, each in groups.items()
        for asked in [int(each.is_asked.sum())]
    ]
    about += " Items that the model cannot be asked, for example because a word is not a single token, are counted separately."
    printed = f"{title}\n{about}\n{found}"
    return Outcome(Section(title, about, tables={"By group": rows}), printed, {"by group": rows})


def _by_layer(
    title: str,
    about: str,
    metrics: Mapping[str, Mapping[str, LayerCurve]],
    baselines: Mapping[str, Mapping[str, float]],
) -> Outcome:
    """An outcome with curves by layer: metric -> model -> curve, and metric -> name of a baseline -> its value."""
    drawn = {
        _name(metric, curves): charts.layer_curves(
            {model: curve.values for model, curve in curves.items()},
            baselines.get(metric),
            name=_name(metric, curves),
        )
        for metric, curves in metrics.items()
    }
    columns = [
        replace(
            curve,
            name=f"{_name(metric, curves)}, {model}" if len(curves) > 1 else _name(metric, curves),
        )
        for metric, curves in metrics.items()
        for model, curve in curves.items()
    ]
    lines = [title, about, *_printed(columns)]
    numbers = {
        _name(metric, curves): {model: curve.values.tolist() for model, curve in curves.items()}
        for metric, curves in metrics.items()
    }
    numbers["baselines"] = {metric: dict(values) for metric, values in baselines.items()}
    tables = {
        f"{_name(metric, curves)} by layer": [
            *_rows([replace(curve, name=model) for model, curve in curves.items()])
        ]
        for metric, curves in metrics.items()
    }
    return Outcome(Section(title, about, drawn, tables), "\n".join(lines), numbers)


def _name(metric: str, curves: Mapping[str, LayerCurve]) -> str:
    """The metric's name; for "score", the name that the probe gives it."""
    return next(iter(curves.values())).name if metric == "score" else metric


def _printed(curves: Sequence[LayerCurve]) -> Iterator[str]:
    """Tables narrow enough for a terminal: four curves each."""
    for start in range(0, len(curves), 4):
        yield table_by_layer(curves[start : start + 4])


def _rows(curves: Sequence[LayerCurve]) -> Iterator[dict[str, Any]]:
    for layer in range(max(curve.values.shape[1] for curve in curves)):
        yield {"layer": layer} | {
            curve.name: float(curve.mean[layer])
            for curve in curves
            if layer < curve.values.shape[1]
        }


def in_splits(parts: Sequence[Sequence[Any]]) -> tuple[list[Any], list[str] | None]:
    """Joins the rows of one to three files, and returns them with the split of each row.

    One file: None, for which probes take the ninth and tenth of every ten rows for validation and test. Two files:
    train and test, with every tenth row of train for validation. Three files: train, validation and test.
    """
    rows = [row for part in parts for row in part]
    if len(parts) == 1:
        return rows, None
    names = SPLITS if len(parts) == len(SPLITS) else (SPLITS[0], SPLITS[-1])
    splits = [name for name, part in zip(names, parts, strict=True) for _ in part]
    if len(parts) == 2:
        splits[9 : len(parts[0]) : 10] = ["validation"] * len(splits[9 : len(parts[0]) : 10])
    return rows, splits
