"""Extractive question answering: SQuAD, MRQA and files in their formats."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.cli.benchmarks.base import Baseline, Benchmark, Measurement, own_files, take
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
    and no answer is the one with the best F1 on the measured split, unless `threshold` is given.
    """

    threshold: float | None = None
    heads = ("span",)
    question = '--context FILE "some question"'
    beam_search = False

    @property
    def kind(self):
        return name_of("BeamQuestionAnswerer" if self.beam_search else "QuestionAnswerer")

    @cached_property
    def allows_no_answer(self) -> bool:
        return self.train.version == "2.0"

    @property
    def texts(self):
        return _columns(self.train)

    def has_labels(self, data):
        return all(example.answers is not None for example in data.examples)

    def batches(self, model, recipe, seed):
        from bert_zoo.data.questions import question_batches
        from bert_zoo.text.windows import question_windows

        windows = question_windows(model.preprocessor, **_window_options(recipe))
        return question_batches(self.train, windows, recipe.batching(seed), model)

    def taught_loss(self, *, match=None, **others):
        if self.beam_search or match == "squared_error":
            raise ValueError(
                "Question answering is distilled with the cross_entropy of start and end, without beam search, but "
                f"match is {match!r} and the task {self.kind!r}. Leave match and beam_search out."
            )
        from bert_zoo.tasks.question_answering import LOGITS

        return {name: super(QuestionBenchmark, self).taught_loss(**others) for name in LOGITS}

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
            *_columns(data),
            [example.id for example in data.examples],
            batch_size=recipe.predicted_rows,
            allow_no_answer=self.allows_no_answer,
            allow_no_text=self.allows_no_answer,
            **_window_options(recipe),
        )

    def scores(self, data: SquadSplit, answers: Mapping[str, str]) -> dict[str, float]:
        """The metrics of final answers, by the questions' ids."""
        if not self.allows_no_answer:
            found = squad_v1(_references(data), answers)
            return {name: found[name] for name in ("f1", "exact_match")}
        found = squad_v2(_references(data), answers)
        return {name: value for name, value in found.items() if "total" not in name}

    def measure(self, data, predictions):
        selections = _by_id(data, predictions)
        answers = {id: selection.best.text for id, selection in selections.items()}
        if not self.allows_no_answer:
            table = _by_data_set(data, answers)
            hardest = _hardest(data, selections, answers)
            return Measurement(self.scores(data, answers), table=table, hardest=hardest)
        threshold, metrics = self.threshold, {}
        if threshold is None:
            odds = {id: selection.no_answer_score for id, selection in selections.items()}
            searched = squad_v2(_references(data), answers, odds)
            threshold = searched[THRESHOLD]
            metrics = {name: searched[name] for name in ("best_f1", "best_exact", THRESHOLD)}
        answers = {id: selection.answer(threshold) for id, selection in selections.items()}
        scores = self.scores(data, answers)
        if self.threshold is None:
            metrics |= scores
        else:
            metrics = {"exact_match": scores["exact"], "f1": scores["f1"]}
        hardest = _hardest(data, selections, answers)
        return Measurement(metrics, table=_by_answerability(data, scores), hardest=hardest)

    def baseline(self, data):
        """Scores always predicting no answer, if that is allowed."""
        if not self.allows_no_answer:
            return None
        metrics = self.scores(data, dict.fromkeys(_references(data), ""))
        best = {f"best_{name}": metrics[name] for name in ("f1", "exact")}
        return Baseline("always no answer", best | metrics)

    def write_predictions(self, directory, split, data, predictions, metrics):
        write_predictions(directory, _by_id(data, predictions), metrics.get(THRESHOLD, 0.0))
        names = (PREDICTIONS_FILE, N_BEST_FILE, NULL_ODDS_FILE)
        return [directory / name for name in names if (directory / name).is_file()]

    def take(self, data, rows):
        return replace(data, examples=tuple(data.examples[row] for row in rows))

    def lines(self, model, data, metrics):
        threshold = metrics[THRESHOLD] if self.allows_no_answer else None
        answers = model.answer(*_columns(data), no_answer_threshold=threshold)
        truths = (" / ".join(dict.fromkeys(e.references)) or NO_ANSWER for e in data.examples)
        rows = zip(answers, truths, strict=True)
        yield "\n\n".join(f"{answer}\n  (true: {truth})" for answer, truth in rows)


def _columns(data: SquadSplit) -> tuple[list[str], list[str]]:
    """Questions and contexts."""
    return tuple([getattr(e, name) for e in data.examples] for name in ("question", "context"))


def _hardest(
    data: SquadSplit, selections: Mapping[str, AnswerSelection], answers: Mapping[str, str]
) -> list[HardExample]:
    """The wrong answers with the highest probability."""
    rows = []
    for example in data.examples:
        answer, truths = answers[example.id], list(dict.fromkeys(example.references)) or [""]
        if any(token_f1(answer, truth) or answer == truth == "" for truth in truths):
            continue
        candidates = selections[example.id].candidates
        sure = max(c.probability for c in candidates if c.text == answer)
        text, truth = f"{example.question}\n\n{example.context}", [t or NO_ANSWER for t in truths]
        loss = -float(np.log(max(1.0 - sure, TINY)))
        rows.append((text, " / ".join(truth), answer or NO_ANSWER, loss))
    return hardest_examples(*zip(*rows, strict=True)) if rows else []


def _by_data_set(data: SquadSplit, answers: Mapping[str, str]) -> list[dict[str, Any]]:
    """The scores of each data set, if a split holds several."""
    names = dict.fromkeys(example.data_set for example in data.examples)
    rows = []
    for name in names if len(names) > 1 else ():
        part = [example for example in data.examples if example.data_set == name]
        scores = squad_v1({e.id: e.references for e in part}, {e.id: answers[e.id] for e in part})
        rows.append({"type": name, **scores, "support": len(part)})
    return rows


def _by_answerability(data: SquadSplit, scores: Mapping[str, float]) -> list[dict[str, Any]]:
    """The scores of questions with and without an answer, of those that there are."""
    has_answer = [bool(example.answers) for example in data.examples]
    kinds = (("HasAns_", "with an answer", True), ("NoAns_", "without an answer", False))
    return [
        {
            "question": name,
            **{score: scores[prefix + score] for score in ("exact", "f1")},
            "support": has_answer.count(kind),
        }
        for prefix, name, kind in kinds
        if kind in has_answer
    ]


def _references(data: SquadSplit) -> dict[str, list[str]]:
    return {example.id: example.references for example in data.examples}


def _by_id(data: SquadSplit, predictions: list[AnswerSelection]) -> dict[str, AnswerSelection]:
    return {example.id: answer for example, answer in zip(data.examples, predictions, strict=True)}


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

    def articles(split: SquadSplit, rows: Sequence[int]) -> SquadSplit:
        chosen = set(take(titles(split), rows))
        return replace(split, examples=tuple(e for e in split.examples if e.title in chosen))

    files = own_files(options, read, lambda split: [None] * len(titles(split)), articles)
    return QuestionBenchmark(**files, beam_search=options.beam_search)
