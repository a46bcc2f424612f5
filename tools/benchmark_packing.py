"""Several texts in one row, beside a text a row in batches of like length: what padding costs on ready ids.

Packed texts attend to themselves alone (`document_ids`), and their vectors are gathered from where they
stand. Before anything is timed, outputs and gradients of both are compared.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from benchmark_pretraining import Race, seconds_of

import bert_zoo
from bert_zoo.data.buckets import Batching, RowOrder
from bert_zoo.data.glue import load_glue
from bert_zoo.data.squad import read_squad
from bert_zoo.training.optimizers import bert_adamw

MODEL, LONGEST = "minilm_l6", 384
# Seconds are those of so many tokens of text, special ones counted and padding not.
PER_TOKENS = 1_000
# Outputs and gradients of packed rows beside those of a text a row.
TOLERANCE = 1e-5


class Texts(NamedTuple):
    """Ready ids of a data set."""

    ids: list[np.ndarray]  # int32 [2, length] of each text: token_ids, segment_ids
    batch_size: int
    batches: int  # that are timed
    widths: tuple[int, ...]  # of packed rows, at most

    @property
    def lengths(self) -> np.ndarray:
        return np.array([ids.shape[1] for ids in self.ids])


def races(glue_dir: str | Path, squad: str | Path) -> Iterator[Race]:
    """Training steps and sentence vectors on phrases, on questions with passages, and on a mixture.

    Args:
        glue_dir: the folder with GLUE's folders; SST-2 is read.
        squad: a file of SQuAD's.
    """
    model = bert_zoo.load(MODEL, task="classification", num_classes=2, max_length=LONGEST)
    phrases = load_glue("sst2", "train", glue_dir).texts
    examples = read_squad(squad).examples
    questions, contexts = zip(*((e.question, e.context) for e in examples), strict=True)
    mixed = [*phrases[: len(questions)], *questions, *contexts]
    data_sets = {
        "SST-2's phrases, SQuAD's questions and passages": Texts(
            _ids(model, mixed), 32, 2, (256, LONGEST)
        ),
        "SST-2": Texts(_ids(model, phrases), 32, 12, (64, 128)),
        "SQuAD": Texts(_ids(model, (questions, contexts)), 8, 4, (LONGEST,)),
    }
    for name, texts in data_sets.items():
        grouped = _in_buckets(texts)
        rows = np.concatenate(grouped)
        print(
            f"\n{name}: {texts.lengths.mean():.1f} tokens on average; {_check(model, texts, rows)}"
        )
        yield Race(f"Training steps, {name}", PER_TOKENS, _trained(model, texts, grouped))
        yield Race(f"Sentence vectors, {name}", PER_TOKENS, _embedded(model.encoder, texts, rows))


def _ids(model, texts: Any) -> list[np.ndarray]:
    inputs = model.preprocessor(texts)
    lengths = inputs["padding_mask"].numpy().sum(1)
    both = np.stack([inputs["token_ids"], inputs["segment_ids"]], axis=1)
    return [row[:, :length] for row, length in zip(both, lengths, strict=True)]


def _in_buckets(texts: Texts) -> list[np.ndarray]:
    """The rows of some batches, as `fit` puts them together."""
    order = RowOrder(texts.lengths, Batching(texts.batch_size, seed=0))
    return order.batches(0)[: texts.batches]


def _regrouped(rows: np.ndarray, size: int) -> list[np.ndarray]:
    """The same rows in batches of any lengths."""
    return np.split(np.random.default_rng(0).permutation(rows), range(size, len(rows), size))


# --- Two layouts of a batch ---


def one_a_row(texts: Texts, rows: np.ndarray) -> dict[str, np.ndarray]:
    """A text a row, padded to the longest."""
    chosen = [texts.ids[row] for row in rows]
    width = max(ids.shape[1] for ids in chosen)
    token_ids, segment_ids, mask = np.zeros((3, len(rows), width), "int32")
    for i, ids in enumerate(chosen):
        length = ids.shape[1]
        token_ids[i, :length], segment_ids[i, :length] = ids
        mask[i, :length] = 1
    return {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": mask}


def packed(texts: Texts, rows: np.ndarray, width: int) -> dict[str, np.ndarray]:
    """Texts one behind the other in rows of much the same length, as narrow as the fullest.

    Beside a model's inputs: `firsts` int32 [rows, most], where the texts of each row begin, 0 where there
    are fewer; `place` int32 [texts], where among those a text is; and `text_of` int32 [rows, width], the
    number of each token's text, -1 for padding.
    """
    lengths = texts.lengths[rows]
    filled = _rows_of_texts(lengths, width)
    width = max(lengths[held].sum() for held in filled)
    most = max(map(len, filled))
    token_ids, segment_ids, position_ids = np.zeros((3, len(filled), width), "int32")
    text_of = np.full((len(filled), width), -1, "int32")
    firsts, place = np.zeros((len(filled), most), "int32"), np.zeros(len(rows), "int32")
    for at, held in enumerate(filled):
        ends = np.cumsum(lengths[held])
        for i, (number, end) in enumerate(zip(held, ends, strict=True)):
            span = at, slice(end - lengths[number], end)
            token_ids[span], segment_ids[span] = texts.ids[rows[number]]
            position_ids[span] = np.arange(lengths[number])
            text_of[span] = number
            firsts[at, i], place[number] = end - lengths[number], at * most + i
    return {
        "token_ids": token_ids,
        "segment_ids": segment_ids,
        "position_ids": position_ids,
        "document_ids": text_of + 1,
        "firsts": firsts,
        "place": place,
        "text_of": text_of,
    }


def _rows_of_texts(lengths: np.ndarray, width: int) -> list[list[int]]:
    """The numbers of each row's texts: the longest text first, each in the emptiest row."""
    for number in itertools.count(-(-int(lengths.sum()) // width)):
        rows: list[list[int]] = [[] for _ in range(number)]
        fill = np.zeros(number, int)
        for text in np.argsort(-lengths, kind="stable"):
            emptiest = fill.argmin()
            rows[emptiest].append(int(text))
            fill[emptiest] += lengths[text]
        if fill.max() <= width:
            return rows


# --- What reads them ---


def _encode_packed(encoder, inputs, positions=None, training: bool | None = False):
    """Vectors of the tokens of all rows, or of those at `positions`, in one row: [tokens, hidden]."""
    read = {name: inputs[name] for name in inputs if name in encoder.backbone.inputs}
    sequence = encoder(read, positions=positions, training=training)["sequence_output"]
    return tf.reshape(sequence, [-1, sequence.shape[-1]])


class PackedClassifier(keras.Model):
    """A classifier of packed rows, whose last layer computes first tokens alone: logits [texts, classes]."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.built = True

    def call(self, inputs, training=None):
        firsts = _encode_packed(self.model.encoder, inputs, inputs["firsts"], training)
        firsts = tf.gather(firsts, inputs["place"])[:, None]
        pooled = self.model.encoder.backbone.pooler(firsts)
        return self.model.head_outputs({"pooled_output": pooled}, inputs, training)


def mean_vectors(encoder, inputs):
    """Sentence vectors of a text a row, as `embed` makes them."""
    weights = tf.cast(inputs["padding_mask"], tf.float32)[..., None]
    sequence = encoder(inputs, training=False)["sequence_output"]
    return tf.math.l2_normalize(
        tf.reduce_sum(sequence * weights, 1) / tf.reduce_sum(weights, 1), axis=-1
    )


def packed_mean_vectors(encoder, inputs):
    """Sentence vectors of packed rows."""
    tokens = _encode_packed(encoder, inputs)
    text_of, number = tf.reshape(inputs["text_of"], [-1]), tf.size(inputs["place"])
    return tf.math.l2_normalize(tf.math.unsorted_segment_mean(tokens, text_of, number), axis=-1)


def _check(model, texts: Texts, rows: np.ndarray) -> str:
    """Compares logits, vectors and gradients of a batch, and says how they differ."""
    rows = _regrouped(rows, texts.batch_size)[0]
    labels = np.arange(len(rows)) % 2
    classifier = PackedClassifier(model)
    found = []
    layouts = one_a_row(texts, rows), packed(texts, rows, texts.widths[-1])
    for run, vectors, inputs in (
        (model, mean_vectors, layouts[0]),
        (classifier, packed_mean_vectors, layouts[1]),
    ):
        inputs = {name: tf.constant(value) for name, value in inputs.items()}
        with tf.GradientTape() as tape:
            logits = run(inputs, training=False)
            loss = model.default_loss()(labels, logits)
        gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        found.append([logits, vectors(model.encoder, inputs), *dense])
    differences = [float(tf.reduce_max(tf.abs(a - b))) for a, b in zip(*found, strict=True)]
    if not max(differences) <= TOLERANCE:
        raise RuntimeError(f"Packed texts give something else: {max(differences)} apart.")
    return (
        f"packed, logits differ by {differences[0]:.1e} at most, vectors by {differences[1]:.1e}, "
        f"gradients by {max(differences[2:]):.1e}."
    )


# --- What is timed ---


def _layouts(
    texts: Texts, grouped: Sequence[np.ndarray], rows: np.ndarray
) -> dict[str, list[dict[str, np.ndarray]]]:
    """The batches of each contestant; those packed are named by the padding that is left in each."""
    mixed = _regrouped(rows, texts.batch_size)
    layouts = {
        "a text a row, of like length": [one_a_row(texts, batch) for batch in grouped],
        "a text a row, of any length": [one_a_row(texts, batch) for batch in mixed],
    }
    for width in texts.widths:
        layouts[f"packed, rows of {width}"] = [packed(texts, batch, width) for batch in mixed]
    tokens = texts.lengths[rows].sum()
    return {
        f"{name}, {1 - tokens / sum(b['token_ids'].size for b in batches):.1%} padding": batches
        for name, batches in layouts.items()
    }


def _race(texts: Texts, layouts: dict, rows: np.ndarray, work: Callable) -> dict:
    share = PER_TOKENS / texts.lengths[rows].sum()

    def contestant(batches):
        return lambda: seconds_of(lambda: [work(batch) for batch in batches], share)

    return {name: contestant(batches) for name, batches in layouts.items()}


def _trained(model, texts: Texts, grouped: Sequence[np.ndarray]) -> dict:
    rows = np.concatenate(grouped)
    models = {False: model, True: PackedClassifier(model)}
    for each in models.values():
        # As small a rate as keeps the weights that the next race begins with.
        each.compile(optimizer=bert_adamw(1e-9), loss=model.default_loss())

    def step(inputs) -> None:
        is_packed = "place" in inputs
        number = len(inputs["place" if is_packed else "token_ids"])
        models[is_packed].train_on_batch(inputs, np.arange(number) % 2)

    return _race(texts, _layouts(texts, grouped, rows), rows, step)


def _embedded(encoder, texts: Texts, rows: np.ndarray) -> dict:
    in_order = rows[np.argsort(texts.lengths[rows], kind="stable")]
    grouped = np.split(in_order, range(texts.batch_size, len(rows), texts.batch_size))
    names = {"token_ids": 2, "segment_ids": 2}
    of_one = {**names, "padding_mask": 2}
    of_packed = {**names, "position_ids": 2, "document_ids": 2, "place": 1, "text_of": 2}

    def graph(function, ranks):
        spec = {n: tf.TensorSpec([None] * rank, tf.int32) for n, rank in ranks.items()}
        return tf.function(
            lambda inputs: function(encoder, inputs), input_signature=[spec], autograph=False
        )

    graphs = {False: graph(mean_vectors, of_one), True: graph(packed_mean_vectors, of_packed)}

    def embed(inputs) -> None:
        is_packed = "place" in inputs
        ids = {name: tf.constant(inputs[name]) for name in (of_packed if is_packed else of_one)}
        graphs[is_packed](ids).numpy()

    return _race(texts, _layouts(texts, grouped, rows), rows, embed)
