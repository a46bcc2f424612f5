"""Exported models with verbs such as `classify` and `embed`."""

import functools
import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.config import DOCUMENT, QUERY, ConfigError, Prompts
from bert_zoo.fields import check
from bert_zoo.metrics.squad import Window, select_each
from bert_zoo.runtime.answers import (
    FIRST_PIECE,
    Classifications,
    HybridVectors,
    Ranking,
    SpanAnswer,
    SpanAnswers,
    Taggings,
    as_str,
    check_asked,
    check_strategy,
    classifications,
    paired,
    ranking,
    sentence_of,
    sigmoid,
    softmax,
    span_answers,
    taggings,
    word_probabilities,
)
from bert_zoo.runtime.description import DESCRIPTION_FILE, SIGNATURE, read_description
from bert_zoo.runtime.reading import SESSIONS, RowReader, checked_inputs
from bert_zoo.runtime.sparse import HYBRID_OUTPUTS, hybrid_vectors, sparse_vectors_of
from bert_zoo.text.numpy_packing import (
    Arrays,
    Slices,
    row_splits_that_fit,
    usual_batch_size,
    windows_of_questions,
)


def load(directory: str | Path, *, threads: int | None = None) -> "RuntimeModel":
    """Opens an export for LiteRT or ONNX Runtime.

    Args:
        directory: where `bert_zoo.export(model, directory, format=...)` wrote it, with "litert" or "onnx".
        threads: number of threads; by default the runtime decides.

    Returns:
        A `RuntimeModel`, with the verb of the model's task if it has one: `classify`, `embed`, `rank`,
        `answer` or `tag`. It takes and returns the same as the Keras model's.

    Raises:
        FileNotFoundError: the directory contains no export.
        ImportError: the runtime is not installed.
        ValueError: a newer bert_zoo wrote the export, or one of its files is damaged.
    """
    directory = Path(directory).expanduser()
    path = directory / DESCRIPTION_FILE
    if not path.is_file():
        raise FileNotFoundError(
            f"{directory} has no {DESCRIPTION_FILE}. bert_zoo.export(model, directory, format=...) writes "
            f"it, with one of the formats {sorted(SESSIONS)}."
        )
    outputs = {verb: kind.outputs_read for verb, kind in _KINDS.items()}
    description = read_description(path, SESSIONS, outputs)
    return _KINDS.get(description["verb"], RuntimeModel)(directory, description, threads)


class RuntimeModel:
    """A model exported for LiteRT or ONNX Runtime, opened by `load`.

    Attributes:
        task: the name of its task.
        description: the content of the export's `runtime.json`. `description["text"]["differences"]`
            lists how its tokenizer differs from the Keras model's.
        outputs_read: names of the outputs that its verb (`classify`, `embed`, ...) reads.
        keys_read: keys of the description that its verb needs.
        labels: names of the classes, in classifiers and taggers.
    """

    outputs_read: tuple[str, ...] = ()
    keys_read: tuple[str, ...] = ()

    def __init__(self, directory: Path, description: Mapping[str, Any], threads: int | None):
        if missing := [key for key in self.keys_read if not description.get(key)]:
            raise ConfigError(
                f"{directory / DESCRIPTION_FILE} has no {' and no '.join(missing)}, which the verb "
                f"{description['verb']} needs. Export the model again."
            )
        self.description = description
        self.task = description["task"]
        self._session = SESSIONS[description["format"]](directory, threads)
        self._inputs = description["signatures"][SIGNATURE]
        self._has_choices = len(self._inputs["token_ids"]["shape"]) == 3
        self._rows = RowReader(directory, description["text"]) if description["text"] else None

    def run(self, inputs: Mapping[str, Any], signature: str = SIGNATURE) -> Arrays:
        """Runs a signature on ids.

        Args:
            inputs: arrays by name, with the shapes in `description["signatures"][signature]`.
            signature: one of `description["signatures"]`.

        Returns:
            The outputs by name, as NumPy arrays.

        Raises:
            ValueError: the signature is unknown, or the inputs do not match it.
        """
        signatures = self.description["signatures"]
        if signature not in signatures:
            raise ValueError(
                f"There is no signature {signature!r}; there are {sorted(signatures)}."
            )
        return self._session.run(signature, checked_inputs(inputs, signatures[signature]))

    @property
    def labels(self) -> list[str]:
        return self.description["labels"]

    @property
    def rows(self) -> RowReader:
        """Turns texts into rows of ids."""
        if self._rows is None:
            raise ValueError(
                "This export takes only ids: " + " ".join(self.description["text_missing"])
            )
        return self._rows

    def predict(self, texts, batch_size: int = 32) -> dict[str, list[np.ndarray]]:
        """Computes the model's outputs for texts.

        Args:
            texts: strings or bytes, or a tuple of two such batches for pairs; for multiple choice
                (prompts, choices), with a list of choices for each prompt.
            batch_size: texts per step; texts of similar length are batched together.

        Returns:
            For each output, a list with one array per text. Outputs per token leave out padding.
        """
        parts = texts if isinstance(texts, tuple) else (texts,)
        if all(not isinstance(part, str | bytes) and len(part) == 0 for part in parts):
            one = [[""], [[""]] if self._has_choices else [""]][: len(parts)]
            found = RuntimeModel.predict(self, tuple(one))
            return {name: of_rows[:0] for name, of_rows in found.items()}
        if not self._has_choices:
            return _by_name(self._outputs_of_rows(self.rows.cut(*map(strings, parts)), batch_size))
        prompts, choices = strings(texts[0]), [strings(row) for row in texts[1]]
        found = []
        for prompt, row in zip(prompts, choices, strict=True):
            inputs = self.rows.packed(self.rows.cut([prompt] * len(row), row))
            inputs = {name: inputs[name][None] for name in self._inputs}
            found.append({name: value[0] for name, value in self.run(inputs).items()})
        return _by_name(found)

    def _outputs_of_rows(
        self, segments: Sequence[Slices], batch_size: int, rows: RowReader | None = None
    ) -> list[Arrays]:
        """Returns the outputs of each row that `rows` has cut; outputs per token leave out padding."""
        rows = rows or self.rows
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size!r}; it must be a positive integer.")
        lengths = rows.packer.row_lengths(segments)
        found: list[Arrays] = [{}] * len(lengths)
        # Shortest rows first.
        order = np.argsort(lengths, kind="stable")
        for start in range(0, len(order), batch_size):
            numbers = order[start : start + batch_size]
            inputs = rows.packed([segment.of_rows(numbers) for segment in segments])
            outputs = self.run({name: inputs[name] for name in self._inputs})
            self._check_outputs(outputs, inputs["token_ids"].shape[1])
            per_token = self.description["outputs_per_token"]
            for at, is_token in enumerate(inputs["padding_mask"] == 1):
                found[numbers[at]] = {
                    name: value[at][is_token] if name in per_token else value[at]
                    for name, value in outputs.items()
                }
        return found

    def _check_outputs(self, outputs: Arrays, width: int) -> None:
        """Checks the outputs for rows of a width against the description."""
        found = {name: list(value.shape) for name, value in outputs.items()}
        wanted = {name: "is missing" for name in self.outputs_read if name not in found}
        for name in self.description["outputs_per_token"]:
            if name in found and found[name][1:2] != [width]:
                wanted[name] = f"has the shape {found[name]}, not one of {width} tokens"
        labels = self.labels
        if labels and "logits" in found and found["logits"][-1:] != [len(labels)]:
            wanted["logits"] = (
                f"has the shape {found['logits']}, and there are {len(labels)} labels"
            )
        if wanted:
            said = "; ".join(f"the output {name} {what}" for name, what in wanted.items())
            raise ValueError(
                f"{DESCRIPTION_FILE} and the model's file come from different exports: {said}. Export "
                "the model again."
            )


class _Classifier(RuntimeModel):
    outputs_read = ("logits",)
    keys_read = ("labels",)

    def classify(self, texts, batch_size: int = 32, top_k: int | None = None) -> Classifications:
        """Like the Keras model's `classify`."""
        check("top_k", top_k, int | None, least=1)
        texts = tuple(map(strings, texts)) if isinstance(texts, tuple) else strings(texts)
        logits, thresholds = self.predict(texts, batch_size), self.description.get("thresholds", ())
        probabilities = map(sigmoid if thresholds else softmax, logits["logits"])
        return classifications(texts, probabilities, self.labels, top_k, thresholds)


class _MultiLabelClassifier(_Classifier):
    keys_read = ("labels", "thresholds")


class _Embedder(RuntimeModel):
    outputs_read = ("embedding",)

    @property
    def prompts(self) -> Prompts:
        """The texts that `embed` can put before a text, by name."""
        return self.description["prompts"]

    @functools.cache  # noqa: B019 (as long as the model)
    def rows_of_role(self, role: str) -> RowReader:
        """Turns texts of a role into rows of ids."""
        rows = self.rows
        roles = self.description["text"].section("roles")
        return rows.of_role(roles.section(role)) if role in roles else rows

    def predict(self, texts, batch_size: int = 32) -> dict[str, list[np.ndarray]]:
        """Like `RuntimeModel.predict`, with the default prompt before each text, which is a document."""
        texts = strings(texts)
        found = _by_name(self._outputs(texts, batch_size, None, None))
        return {name: of_texts[: len(texts)] for name, of_texts in found.items()}

    def embed(
        self, texts, batch_size: int = 32, prompt: str | None = None, role: str | None = None
    ) -> np.ndarray:
        """Like the Keras model's `embed`: returns sentence vectors, float32 [texts, size]."""
        texts = strings(texts)
        found = self._outputs(texts, batch_size, prompt, role)
        return np.stack([outputs["embedding"] for outputs in found])[: len(texts)]

    def _outputs(
        self, texts: Sequence[str], batch_size: int, prompt: str | None, role: str | None
    ) -> list[Arrays]:
        """The outputs of each text, without padding. If there are none, of an empty one, whose outputs have their size."""
        before = self.prompts.text(prompt, role)
        known = {"", *self.prompts.texts.values()}
        if before not in known and not self.description["include_prompt"]:
            raise ValueError(
                f"prompt is {prompt!r}, but this export can only leave the prompts "
                f"{sorted(self.prompts.texts)} out of its vectors. Add yours to encoder.prompts and export "
                "the model again."
            )
        rows = self.rows_of_role(role or DOCUMENT)
        segments = rows.cut([before + text for text in texts or [""]])
        return self._outputs_of_rows(segments, batch_size, rows)


class _TokenEmbedder(_Embedder):
    outputs_read = ("vectors", "vector_mask")

    def embed(
        self, texts, batch_size: int = 32, prompt: str | None = None, role: str | None = None
    ) -> list[np.ndarray]:
        """Like the Keras model's `embed`: returns token vectors, float32 [tokens, size] for each text."""
        texts = strings(texts)
        found = self._outputs(texts, batch_size, prompt, role)[: len(texts)]
        return [outputs["vectors"][outputs["vector_mask"] == 1] for outputs in found]


class _HybridEmbedder(_TokenEmbedder):
    outputs_read = HYBRID_OUTPUTS

    def embed(
        self, texts, batch_size: int = 32, prompt: str | None = None, role: str | None = None
    ) -> HybridVectors:
        """Like the Keras model's `embed`: returns vectors of all three kinds."""
        texts = strings(texts)
        found = self._outputs(texts, batch_size, prompt, role)
        return hybrid_vectors(found, self.description["text"]["vocabulary_size"])[: len(texts)]


class _SparseEmbedder(_Embedder):
    def embed(
        self,
        texts,
        batch_size: int = 32,
        prompt: str | None = None,
        max_active_dims: int | None = None,
        role: str | None = None,
    ):
        """Like the Keras model's `embed`: returns sparse vectors, SciPy's CSR float32 [texts, vocabulary]."""
        check("max_active_dims", max_active_dims, int | None, least=1)
        before, weights = self.prompts.text(prompt, role), self.description["query_weights"]
        vectors_of = partial(super().embed, batch_size=batch_size, prompt=prompt, role=role)
        if role == QUERY and weights:
            vectors_of = partial(self._weighted, before=before, weights=np.float32(weights))
        most = max_active_dims or self.description["max_active_dims"]
        return sparse_vectors_of(strings(texts), vectors_of, batch_size, most)

    def _weighted(self, texts: list[str], before: str, weights: np.ndarray) -> np.ndarray:
        """Returns the weights of the tokens that occur in texts, float32 [texts, vocabulary]."""
        (tokens,) = self.rows_of_role(QUERY).cut([before + text for text in texts])
        vectors = np.zeros((len(texts), len(weights)), np.float32)
        for row, start, length in zip(vectors, tokens.starts, tokens.lengths, strict=True):
            ids = tokens.values[start : start + length]
            row[ids] = weights[ids]
        return vectors


class _Reranker(RuntimeModel):
    outputs_read = ("logits",)
    keys_read = ("score_activation",)

    def rank(self, query: str, documents, top_k: int | None = 10, batch_size: int = 32) -> Ranking:
        """Like the Keras model's `rank`."""
        check_asked(query, top_k)
        documents = strings(documents)
        if not documents:
            return Ranking()
        logits = self.predict(([query] * len(documents), documents), batch_size)["logits"]
        activation = self.description["score_activation"]
        return ranking(documents, np.concatenate(logits), activation, top_k)


class _Tagger(RuntimeModel):
    outputs_read = ("logits",)
    keys_read = ("labels",)

    def tag(
        self,
        texts,
        aggregate: bool = True,
        batch_size: int = 32,
        *,
        aggregation_strategy: str = FIRST_PIECE,
    ) -> Taggings:
        """Like the Keras model's `tag`."""
        check_strategy(aggregation_strategy)
        texts = [texts] if isinstance(texts, str | bytes) else [*texts]
        sentences = [*map(sentence_of, texts)]
        if not sentences:
            return Taggings()
        words = [s.words for s in sentences]
        probabilities = self._word_probabilities(words, batch_size, aggregation_strategy)
        return taggings(sentences, probabilities, self.labels, aggregate)

    def _word_probabilities(
        self, sentences: Sequence[Sequence[str]], batch_size: int, strategy: str
    ) -> list[np.ndarray]:
        """Returns float32 [words, labels] for each sentence."""
        pieces = self.rows.reader.words([*itertools.chain.from_iterable(sentences)])
        ends = np.cumsum([0, *map(len, sentences)])
        packer = self.rows.packer
        budget = packer.sequence_length - packer.layout.specials(1)
        splits = row_splits_that_fit(pieces.lengths, ends, budget)
        # Where each word's pieces begin, and the end of all pieces.
        begins = np.append(pieces.starts, len(pieces.ids))
        kept = np.minimum(np.diff(begins[splits]), budget)
        rows = Slices(pieces.ids, begins[splits[:-1]], kept)
        before = self.rows.specials_before(0, 1)
        found = []
        for number, outputs in enumerate(self._outputs_of_rows([rows], batch_size)):
            logits = outputs["logits"][before : before + kept[number]]
            first = begins[splits[number] : splits[number + 1]] - rows.starts[number]
            found.append(word_probabilities(softmax(logits), first, strategy))
        return np.split(np.concatenate(found), ends[1:-1])


class _Answerer(RuntimeModel):
    outputs_read = ("start_logits", "end_logits")

    def answer(
        self,
        question,
        context,
        no_answer_threshold: float | None = 0.0,
        *,
        n_best: int = 20,
        max_answer_length: int = 30,
        stride: int | None = None,
        max_question_length: int = 64,
        batch_size: int | None = None,
    ) -> SpanAnswer | SpanAnswers:
        """Like the Keras model's `answer`."""
        single = isinstance(question, str) and isinstance(context, str)
        questions, contexts = paired(question, context, strings)
        for name, value in (("stride", stride), ("max_question_length", max_question_length)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value!r}; it must be a number of tokens, at least 1.")
        if not questions:
            return SpanAnswers()
        rows, context_tokens = self.rows, self.rows.reader.tokenized(contexts, with_spans=True)
        windows = windows_of_questions(
            rows.packer,
            *rows.packer.checked([rows.reader.tokenized(questions), context_tokens]),
            stride=stride,
            max_question_length=max_question_length,
        )
        if batch_size is None:
            batch_size = usual_batch_size(rows.packer.sequence_length)
        outputs = self._outputs_of_rows(windows.segments, batch_size)
        inputs, (_, shown) = rows.packer.lay_out(windows.segments)
        offsets = np.stack([shown.gather(edge) for edge in context_tokens.spans.T], axis=-1)
        no_answer, found = rows.packer.layout.cls_position, []
        for number, is_token in enumerate(inputs["padding_mask"] == 1):
            logits = (outputs[number][name] for name in self.outputs_read)
            columns = shown.inside[number][is_token], offsets[number][is_token]
            found.append(Window(*logits, *columns, int(windows.first_token[number]), no_answer))
        options = {"n_best": n_best, "max_answer_length": max_answer_length}
        options |= {"allow_no_answer": no_answer_threshold is not None, "allow_no_text": True}
        chosen = select_each(contexts, found, windows.example, range(len(questions)), **options)
        answers = span_answers(questions, contexts, chosen, no_answer_threshold)
        return answers[0] if single else answers


# Verb of an export -> its class.
_KINDS = {
    "classify": _Classifier,
    "classify_many": _MultiLabelClassifier,
    "embed": _Embedder,
    "embed_tokens": _TokenEmbedder,
    "embed_hybrid": _HybridEmbedder,
    "embed_sparse": _SparseEmbedder,
    "rank": _Reranker,
    "tag": _Tagger,
    "answer": _Answerer,
}


def strings(texts: Any, name: str = "texts") -> list[str]:
    """Turns one text or several, strings or bytes, into a list of strings, or raises TypeError."""
    texts = [texts] if isinstance(texts, str | bytes) else [*texts]
    for number, text in enumerate(texts):
        if not isinstance(text, str | bytes):
            raise TypeError(f"{name}[{number}] is {text!r} ({type(text).__name__}), not a string.")
    return [*map(as_str, texts)]


def _by_name(outputs: Sequence[Arrays]) -> dict[str, list[np.ndarray]]:
    return {name: [of_row[name] for of_row in outputs] for name in outputs[0]}
