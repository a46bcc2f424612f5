"""Verbs on one text a call and on many, beside the model's own time on ready ids.

The model alone is a function that TensorFlow traced, called with the same texts' ids, padded to the
longest of each batch. What a verb takes beyond that is reading its text, calling, and the result.
Weights of minilm_l6 serve all verbs but `generate`, whose model has random ones: time is the same.
"""

import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import bert_zoo
from bert_zoo.data import messages

ONE = ["How do I get my money back?"]
MASKED = "How do I get my [MASK] back?"
CONTEXT = (
    "Orders can be returned within 30 days. Send the parcel back with the label that came with it, and "
    "we transfer the money to your account as soon as it has arrived."
)
MANY = 512
BATCH_SIZE = 32
NEW_TOKENS = 16
# One text is so quick that a round times several calls.
CALLS = 10

# sentence-transformers' verb, in the environment of the peers.
ENCODE = """
import torch
from sentence_transformers import SentenceTransformer
torch.set_num_threads(settings["threads"])
model = SentenceTransformer(settings["model_dir"], device="cpu")
def work():
    for _ in range(settings["calls"]):
        model.encode(settings["texts"], batch_size=settings["batch_size"], show_progress_bar=False)
"""


@dataclass(frozen=True)
class Race:
    """One call of a verb, and what it is measured by."""

    title: str  # the verb, and on what
    calls: int  # in a round, whose time is divided by them
    ours: Callable[[], object]  # the call
    alone: Callable[[], object]  # the model's part of it
    # Name -> a call that does the same work.
    others: dict[str, Callable[[], object]] = field(default_factory=dict)
    # The texts, where sentence-transformers does the same work with them.
    encoded: Sequence[str] = ()


def races(scratch: Path) -> Iterator[Race]:
    """Every verb that reads texts, on one of them and, where it takes many, on `MANY`."""
    texts = messages.load("train")[0][:MANY]
    encoder = bert_zoo.load("minilm_l6")
    bert_zoo.export(encoder, scratch)
    served = _served(scratch)
    classifier = bert_zoo.load("minilm_l6", task="classification", num_classes=2)
    tagger = bert_zoo.load("minilm_l6", task="token_classification", labels=["O", "B-X", "I-X"])
    answerer = bert_zoo.load("minilm_l6", task="question_answering")
    masked_lm = bert_zoo.load("minilm_l6", task="masked_lm", init=("masked_lm",))

    for name, given, calls in (("one text", ONE, CALLS), (f"{MANY} texts", texts, 1)):
        pairs = (given, [CONTEXT] * len(given))
        saved = {"its SavedModel": lambda: served(ONE)} if given is ONE else {}
        verbs = {
            "embed": (encoder, given, encoder.embed),
            "classify": (classifier, given, classifier.classify),
            "predict": (classifier, given, lambda x: classifier.predict(x, verbose=0)),
            "tag": (tagger, given, tagger.tag),
            "answer": (answerer, pairs, lambda pairs: answerer.answer(*pairs)),
        }
        for verb, (model, x, run) in verbs.items():
            is_embed = verb == "embed"
            yield Race(
                f"{verb}, {name}",
                calls,
                lambda run=run, x=x: run(x),
                alone(model, x),
                saved if is_embed else {},
                given if is_embed else (),
            )
    at = {"mask_positions": np.array([[MASKED.split().index("[MASK]") + 1]], "int32")}
    yield Race(
        "fill_mask, one text",
        CALLS,
        lambda: masked_lm.fill_mask(MASKED),
        alone(masked_lm, [MASKED], at),
    )
    generator = language_model()
    yield Race(
        f"generate, one text, {NEW_TOKENS} tokens",
        1,
        lambda: generator.generate("how do i get", max_new_tokens=NEW_TOKENS),
        steps_alone(generator, "how do i get"),
    )


def _served(directory: Path) -> Callable[[Sequence[str]], Any]:
    import tensorflow as tf

    signature = tf.saved_model.load(str(directory)).signatures["serving_default"]
    return lambda texts: signature(text=tf.constant(texts))["sequence_output"].numpy()


def alone(model, x, more: dict[str, np.ndarray] | None = None) -> Callable[[], None]:
    """The model on the ids of texts, or of a pair of batches, in batches."""
    import tensorflow as tf

    preprocessor = model.preprocessor.with_options(bucket=1)
    columns = x if isinstance(x, tuple) else (x,)
    batches = []
    for start in range(0, len(columns[0]), BATCH_SIZE):
        part = tuple(column[start : start + BATCH_SIZE] for column in columns)
        batches.append(preprocessor(part if len(part) > 1 else part[0]) | (more or {}))

    @tf.function(autograph=False, reduce_retracing=True)
    def run(inputs):
        return model(inputs, training=False)

    def work() -> None:
        for inputs in batches:
            tf.nest.map_structure(lambda output: output.numpy(), run(inputs))

    return work


def language_model():
    """The paper's 12-layer character model with a short memory, random weights and letters to read."""
    from bert_zoo.families.transformer_xl.config import RecurrentConfig
    from bert_zoo.models import CausalLM, Encoder
    from bert_zoo.text import LanguageModelPreprocessor, WordLevelTokenizer
    from bert_zoo.training.presets import LANGUAGE_MODEL_PRESETS

    symbols = ["<eos>", "<unk>", *string.ascii_lowercase, " "]
    sizes = LANGUAGE_MODEL_PRESETS["enwik8_base"].config | {"mem_len": 128}
    config = RecurrentConfig(vocab_size=len(symbols), **sizes)
    tokenizer = WordLevelTokenizer(symbols, unit="character")
    preprocessor = LanguageModelPreprocessor(tokenizer, sequence_length=128)
    return CausalLM(Encoder(config, "transformer_xl", preprocessor=preprocessor))


def steps_alone(model, prompt: str) -> Callable[[], None]:
    """The model on a prompt, and then on one token after the other."""
    import tensorflow as tf

    token_ids = model.preprocessor([prompt])["token_ids"]

    @tf.function(autograph=False)
    def read(token_ids, memory):
        outputs = model({"token_ids": token_ids, "memory": memory}, training=False)
        likeliest = tf.argmax(outputs["log_probs"][:, -1:], axis=-1, output_type=tf.int32)
        return likeliest, outputs["memory"]

    def work() -> None:
        memory = [tf.convert_to_tensor(layer) for layer in model.initial_memory(1)["memory"]]
        tokens, memory = read(token_ids, memory)
        for _ in range(NEW_TOKENS - 1):
            tokens, memory = read(tokens, memory)
        tokens.numpy()

    return work


def table(results: dict[str, dict[str, dict]]) -> str:
    """Markdown of what `race` returned for each title: milliseconds, ours first."""
    names = list(dict.fromkeys(name for race in results.values() for name in race))
    ours, model = names[:2]
    lines = [
        f"| call | {ours} | {model} | ratio | {' | '.join(names[2:])} |",
        "|---" * (len(names) + 2) + "|",
    ]
    for title, race in results.items():
        cells = [f"{race[n]['median'] * 1000:,.1f} ms" if n in race else "" for n in names]
        ratio = 1 / race[model]["ratio"]
        lines.append(f"| {title} | {' | '.join([*cells[:2], f'{ratio:.2f}', *cells[2:]])} |")
    return "\n".join(lines)
