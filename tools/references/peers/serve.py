"""Serves an exported model to `tools/benchmark_serving.py`, in a process and environment of its own.

    python serve.py KIND DIRECTORY THREADS OPTIONS     # options as JSON

It loads the model, and then answers requests as they come, a line of JSON each:
{"requests": [columns, ...]}, where columns are a list of texts, two of pairs, or a list of questions
and one of contexts. One line of JSON goes back: `seconds` of all of them together, `answers` in the
order of the texts, and `memory`, the process's largest resident memory so far, in bytes. An answer is
the number of the likeliest class, or the score of a model that gives one; of questions, the best span
and the log-odds of no answer.

Nothing is imported but the standard library before the kind of model says what it needs.
"""

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

Columns = list[list[str]]
Answerer = Callable[[Columns], list]


def answers_of(logits) -> list:
    """Of an array or a tensor [batch, classes], or of scores [batch, 1]."""
    return (logits[:, 0] if logits.shape[1] == 1 else logits.argmax(-1)).tolist()


def saved_model(directory: str, threads: int, *, questions: bool = False) -> Answerer:
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the tokenizer's ops

    served = tf.saved_model.load(directory).signatures
    if questions:

        def answer(columns):
            question, context = map(tf.constant, columns)
            found = served["serving_default"](question=question, context=context)
            texts = [text.decode() for text in found["answer"].numpy()]
            return [*zip(texts, found["no_answer_score"].numpy().tolist(), strict=True)]

        return answer

    def classify(columns):
        texts = dict(zip(("text", "text_pair"), map(tf.constant, columns), strict=False))
        signature = served["pairs" if len(columns) > 1 else "serving_default"]
        return answers_of(signature(**texts)["logits"].numpy())

    return classify


def runtime(directory: str, threads: int, *, questions: bool = False) -> Answerer:
    import numpy

    import bert_zoo.runtime

    model = bert_zoo.runtime.load(directory, threads=threads)
    if questions:

        def answer(columns):
            # A threshold above all scores: the best span, whatever no answer's score is.
            found = model.answer(*columns, no_answer_threshold=float("inf"))
            return [(row.text, row.no_answer_score) for row in found]

        return answer

    def classify(columns):
        rows = model.predict(columns[0] if len(columns) == 1 else tuple(columns))["logits"]
        return answers_of(numpy.stack(rows))

    return classify


def keras(directory: str, threads: int) -> Answerer:
    import bert_zoo

    model = bert_zoo.load(directory)
    numbers = {label: number for number, label in enumerate(model.labels)}

    def classify(columns):
        found = model.classify(columns[0] if len(columns) == 1 else tuple(columns))
        return [numbers[row.label] for row in found]

    return classify


def torch(
    directory: str, threads: int, *, dtype: str, compiled: bool = False, questions: bool = False
) -> Answerer:
    import torch
    import transformers

    torch.set_num_threads(threads)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    head = "QuestionAnswering" if questions else "SequenceClassification"
    model = getattr(transformers, f"AutoModelFor{head}").from_pretrained(
        directory, dtype=getattr(torch, dtype)
    )
    model.eval()
    run = torch.compile(model, dynamic=True) if compiled else model

    def logits_of(inputs):
        with torch.inference_mode():
            found = run(**{name: torch.from_numpy(value) for name, value in inputs.items()})
            return found.start_logits.float().numpy(), found.end_logits.float().numpy()

    def classify(columns):
        read = tokenizer(*columns, padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            return answers_of(run(**read).logits)

    if questions:
        return answering(tokenizer.backend_tokenizer, logits_of)
    return classify


def onnx(directory: str, threads: int, *, questions: bool = False) -> Answerer:
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{directory}/tokenizer.json")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        f"{directory}/model.onnx", options, providers=["CPUExecutionProvider"]
    )

    def logits_of(inputs):
        return session.run(["start_logits", "end_logits"], inputs)

    def classify(columns):
        rows = tokenizer.encode_batch([*zip(*columns, strict=True)] if columns[1:] else columns[0])
        return answers_of(session.run(["logits"], inputs_of(rows))[0])

    if questions:
        return answering(tokenizer, logits_of)
    return classify


def inputs_of(rows) -> dict:
    """A BERT's inputs, of rows of the library tokenizers that are padded to one length."""
    import numpy as np

    return {
        "input_ids": np.array([row.ids for row in rows]),
        "attention_mask": np.array([row.attention_mask for row in rows]),
        "token_type_ids": np.array([row.type_ids for row in rows]),
    }


def answering(tokenizer, logits_of: Callable) -> Answerer:
    """Answers with the best span of up to 30 tokens in each context, and the log-odds of no answer.

    As transformers' examples/pytorch/question-answering (run_qa.py, utils_qa.py): two windows of a context
    in a row share 128 tokens; of several the span with the highest sum of logits counts, and the least sum
    at [CLS].
    """
    import numpy as np

    tokenizer.enable_truncation(384, stride=128, strategy="only_second")
    tokenizer.enable_padding()

    def best_span(context, rows, start, end):
        is_context = np.array([[part == 1 for part in row.sequence_ids] for row in rows])
        allowed = is_context[:, :, None] & is_context[:, None, :]
        allowed &= np.tril(np.triu(np.ones(allowed.shape[1:], bool)), 29)
        sums = np.where(allowed, start[:, :, None] + end[:, None, :], -np.inf)
        row, begin, last = np.unravel_index(sums.argmax(), sums.shape)
        offsets = rows[row].offsets
        no_answer = (start[:, 0] + end[:, 0]).min() - sums.max()
        return context[offsets[begin][0] : offsets[last][1]], float(no_answer)

    def answer(columns):
        read = tokenizer.encode_batch([*zip(*columns, strict=True)])
        windows = [[row, *row.overflowing] for row in read]
        logits = logits_of(inputs_of([row for rows in windows for row in rows]))
        ends = np.cumsum([len(rows) for rows in windows])[:-1]
        of_questions = (np.split(part, ends) for part in logits)
        return [*map(best_span, columns[1], windows, *of_questions)]

    return answer


def sentence_transformers(directory: str, threads: int) -> Answerer:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    model = SentenceTransformer(directory, device="cpu")
    # It makes vectors, not classes: there is nothing to score.
    return lambda columns: len(model.encode(columns[0], show_progress_bar=False)) * [None]


KINDS = {
    function.__name__: function
    for function in (saved_model, runtime, keras, torch, onnx, sentence_transformers)
}


def largest_memory() -> int:
    """Bytes, of this process alone: `getrusage` counts what its parent had when it was started."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def main() -> None:
    kind, directory, threads, options = sys.argv[1:]
    answer = KINDS[kind](directory, int(threads), **json.loads(options))
    for line in sys.stdin:
        requests = json.loads(line)["requests"]
        start = time.perf_counter()
        answers = [answer(columns) for columns in requests]
        seconds = time.perf_counter() - start
        result = {
            "seconds": seconds,
            "answers": [row for of_request in answers for row in of_request],
            "memory": largest_memory(),
        }
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
