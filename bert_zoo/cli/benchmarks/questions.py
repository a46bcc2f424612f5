"""Extractive question answering: SQuAD, MRQA and files in their formats."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.cli.benchmarks.base import (
    Baseline,
    Benchmark,
    Measurement,
    pair_of,
    spread_rows,
    with_rows,
)
from bert_zoo.cli.benchmarks.files import own_files
from bert_zoo.data.buckets import Batches, RowOrder, Rows
from bert_zoo.data.mrqa import read_mrqa
from bert_zoo.data.squad import SquadSplit, read_squad
from bert_zoo.metrics import AnswerSelection, squad_v1, squad_v2, write_predictions
from bert_zoo.metrics.errors import TINY, HardExample, hardest_examples
from bert_zoo.metrics.squad import N_BEST_FILE, NULL_ODDS_FILE, PREDICTIONS_FILE, token_f1
from bert_zoo.tasks import name_of

# The metric that holds the threshold above which the answer is "no answer".
THRESHOLD = "best_f1_thresh"
NO_ANSWER = "(no answer)"
# A teacher's logit of padding, which a softmax turns into 0.
PADDED = -1e4


class QuestionBenchmark(Benchmark):
    """Answers to questions. The data are `SquadSplit`s.

    If questions may have no answer (SQuAD 2.0; by default the training data decide), the threshold between the best span
    and no answer is the one with the best F1 on the measured split.
    """

    kind = name_of("QuestionAnswerer")
    heads = ("span",)
    question = '--context FILE "some question"'

    def __init__(
        self,
        *others,
        beam_search: bool = False,
        allows_no_answer: bool | None = None,
        **options,
    ):
        super().__init__(*others, **options)
        self._allows_no_answer = allows_no_answer
        if beam_search:
            self.kind = name_of("BeamQuestionAnswerer")

    @property
    def allows_no_answer(self) -> bool:
        if self._allows_no_answer is None:
            return self.train.version == "2.0"
        return self._allows_no_answer

    def has_labels(self, data):
        return all(example.answers is not None for example in data.examples)

    def batches(self, model, recipe, seed):
        from bert_zoo.data.questions import question_batches
        from bert_zoo.text.windows import question_windows

        windows = question_windows(model.preprocessor, **_window_options(recipe))
        return question_batches(self.train, windows, recipe.batching(seed), model)

    def taught_loss(self, *, match=None, **others):
        if self.kind != name_of("QuestionAnswerer") or match == "squared_error":
            raise ValueError(
                "Question answering is distilled with the cross_entropy of start and end, without beam search, but "
                f"match is {match!r} and the task {self.kind!r}. Leave match and beam_search out."
            )
        from bert_zoo.tasks.question_answering import LOGITS

        return {name: super(QuestionBenchmark, self).taught_loss(**others) for name in LOGITS}

    def unlabelled_row(self, line):
        return pair_of(line)

    def taught_texts(self, model, more):
        examples = self.train.examples
        return with_rows(([e.question for e in examples], [e.context for e in examples]), more)

    def answered_rows(self, teacher, texts, recipe):
        """The number of tokens in each question's windows."""
        from bert_zoo.data.questions import window_table
        from bert_zoo.text.windows import question_windows

        windows = question_windows(teacher.preprocessor, **_taught_windows(recipe))
        table = window_table(windows, *texts)
        self._taught_ids = np.array(table.tokens["token_ids"].values)
        return np.bincount(table.rows["example"], table.lengths, len(texts[0])).astype(int)

    def teacher_says(self, teacher, texts, batch_size, recipe):
        from bert_zoo.tasks.question_answering import logits_of_tokens

        return logits_of_tokens(teacher, *texts, batch_size, **_taught_windows(recipe))

    def taught_batches(self, answers, more, model, recipe, seed):
        from bert_zoo.data.questions import NO_ANSWER as NO_SPAN
        from bert_zoo.data.questions import labelled_windows, trained_answer
        from bert_zoo.distillation.losses import LABELLED, TAUGHT
        from bert_zoo.tasks.question_answering import LOGITS
        from bert_zoo.text.windows import question_windows

        examples = self.train.examples
        spans = [*map(trained_answer, examples)] + [NO_SPAN] * len(more)
        ids = [example.id for example in examples] + [*range(len(more))]
        windows = question_windows(model.preprocessor, **_taught_windows(recipe))
        texts = self.taught_texts(model, more)
        table, batch = labelled_windows(windows, *texts, spans, ids)
        if not np.array_equal(np.array(table.tokens["token_ids"].values), self._taught_ids):
            raise ValueError(
                "Student and teacher split the questions into different tokens, but answers are compared token by "
                "token. Choose a student with the teacher's vocabulary, or make one from the teacher with --layers."
            )
        taught = table.with_columns(dict(zip(LOGITS, answers.T, strict=True)), PADDED)
        known = np.where(table.rows["example"] < len(examples), LABELLED, TAUGHT)[:, None]

        def taught_batch(numbers):
            inputs, places = batch(numbers)
            rows, of_rows = taught.padded(numbers), np.float32(known)[numbers]
            right = np.eye(rows["token_ids"].shape[1], dtype=np.float32)
            return inputs, {
                name: np.concatenate([rows[name], right[places[name]], of_rows], axis=1)
                for name in LOGITS
            }

        rows = Rows(table.padded_lengths, taught_batch, axes=table.axes, label_axes=table.axes)
        return Batches(rows, RowOrder(rows.lengths, recipe.batching(seed)))

    def predict(self, model, data, recipe):
        """[N] `AnswerSelection`s in the order of the questions."""
        from bert_zoo.tasks.question_answering import answer_questions

        return answer_questions(
            model,
            [example.question for example in data.examples],
            [example.context for example in data.examples],
            [example.id for example in data.examples],
            batch_size=recipe.predicted_rows,
            allow_no_answer=self.allows_no_answer,
            **_window_options(recipe),
        )

    def measure(self, data, predictions):
        references, selections = _references(data), _by_id(data, predictions)
        best_spans = {id: selection.best.text for id, selection in selections.items()}
        if not self.allows_no_answer:
            scores = squad_v1(references, best_spans)
            metrics = {name: scores[name] for name in ("f1", "exact_match")}
            table = _by_data_set(data, best_spans)
            return Measurement(metrics, table=table, hardest=self._hardest(data, predictions, None))
        odds = {id: selection.no_answer_score for id, selection in selections.items()}
        searched = squad_v2(references, best_spans, odds)
        threshold = searched[THRESHOLD]
        final = {id: selection.answer(threshold) for id, selection in selections.items()}
        metrics = {name: searched[name] for name in ("best_f1", "best_exact", THRESHOLD)}
        metrics |= _without_totals(squad_v2(references, final))
        return Measurement(metrics, hardest=self._hardest(data, predictions, threshold))

    def baseline(self, data):
        """Scores always predicting no answer, if that is allowed."""
        if not self.allows_no_answer:
            return None
        references = _references(data)
        metrics = squad_v2(references, dict.fromkeys(references, ""))
        best = {f"best_{name}": metrics[name] for name in ("f1", "exact")}
        return Baseline("always no answer", best | _without_totals(metrics))

    def _hardest(
        self, data: SquadSplit, predictions: list[AnswerSelection], threshold: float | None
    ) -> list[HardExample]:
        """The wrong answers with the highest probability."""
        rows, losses = [], []
        for example, selection in zip(data.examples, predictions, strict=True):
            answer = selection.best.text if threshold is None else selection.answer(threshold)
            truths = list(dict.fromkeys(example.references)) or [""]
            if max(_f1(answer, truth) for truth in truths) > 0:
                continue
            truth = " / ".join(truth or NO_ANSWER for truth in truths)
            rows.append((f"{example.question}\n\n{example.context}", truth, answer or NO_ANSWER))
            sure = max(c.probability for c in selection.candidates if c.text == answer)
            losses.append(-float(np.log(max(1.0 - sure, TINY))))
        return hardest_examples(*zip(*rows, strict=True), losses) if rows else []

    def write_predictions(self, directory, split, data, predictions, metrics):
        write_predictions(directory, _by_id(data, predictions), metrics.get(THRESHOLD, 0.0))
        names = (PREDICTIONS_FILE, N_BEST_FILE, NULL_ODDS_FILE)
        return [directory / name for name in names if (directory / name).is_file()]

    def show(self, model, data, metrics):
        chosen = [data.examples[i] for i in spread_rows(len(data.examples))]
        answers = model.answer(
            [example.question for example in chosen],
            [example.context for example in chosen],
            no_answer_threshold=metrics[THRESHOLD] if self.allows_no_answer else None,
        )
        truths = (dict.fromkeys(example.references) for example in chosen)
        return "\n\n".join(
            f"{answer}\n  (true: {' / '.join(texts) or NO_ANSWER})"
            for answer, texts in zip(answers, truths, strict=True)
        )


def _by_data_set(data: SquadSplit, answers: Mapping[str, str]) -> list[dict[str, Any]]:
    """The scores of each data set, if a split holds several."""
    names = dict.fromkeys(example.data_set for example in data.examples)
    rows = []
    for name in names if len(names) > 1 else ():
        part = [example for example in data.examples if example.data_set == name]
        scores = squad_v1({e.id: e.references for e in part}, {e.id: answers[e.id] for e in part})
        rows.append({"type": name, **scores, "support": len(part)})
    return rows


def _f1(answer: str, truth: str) -> float:
    return float(answer == truth) if not (answer and truth) else token_f1(answer, truth)


def _references(data: SquadSplit) -> dict[str, list[str]]:
    return {example.id: example.references for example in data.examples}


def _by_id(data: SquadSplit, predictions: list[AnswerSelection]) -> dict[str, AnswerSelection]:
    return {example.id: answer for example, answer in zip(data.examples, predictions, strict=True)}


def _without_totals(scores: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in scores.items() if "total" not in name}


def _window_options(recipe) -> dict[str, int | None]:
    return {"stride": recipe.stride, "max_question_length": recipe.max_question_length}


def _taught_windows(recipe) -> dict[str, int | None]:
    """The options of the windows that teacher and student share."""
    return {**_window_options(recipe), "sequence_length": recipe.max_length}


def questions_benchmark(options) -> QuestionBenchmark:
    """Files in SQuAD's format, or MRQA's for JSON Lines; `held_out` counts articles."""

    def read(path: str, train: SquadSplit | None) -> SquadSplit:
        return read_mrqa(path) if ".jsonl" in Path(path).suffixes else read_squad(path)

    def titles(split: SquadSplit) -> list[str]:
        return list(dict.fromkeys(example.title for example in split.examples))

    def take(split: SquadSplit, rows: Sequence[int]) -> SquadSplit:
        all_titles = titles(split)
        chosen = {all_titles[row] for row in rows}
        examples = tuple(example for example in split.examples if example.title in chosen)
        return SquadSplit(split.version, examples)

    articles = own_files(options, read, take, lambda split: [None] * len(titles(split)))
    return QuestionBenchmark(**articles, beam_search=options.beam_search)
