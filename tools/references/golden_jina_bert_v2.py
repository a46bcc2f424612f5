"""Makes the golden checkpoints of Jina Embeddings v2, and what its published equations give for them, in float64.

transformers has no class for it. The reference below is NumPy, written from the names and equations of the authors'
files, one row, head and layer at a time; padding attends to the row's tokens, and nothing attends to padding. It needs
NumPy and safetensors, and for vocabularies what `make_golden.py` needs:

    python tools/references/golden_jina_bert_v2.py
"""

import json
import math
import re
import shutil
import zlib

import golden_vocabularies as vocabularies
import numpy as np
import safetensors
from golden_case import GOLDEN, POSITIONS, write_json
from safetensors.numpy import save_file

NAME = "jina_bert_v2"
SIZES = {
    **{"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 24},
    **{"num_hidden_layers": 2, "type_vocab_size": 2, "max_position_embeddings": POSITIONS},
}
# The keys of the released config.json.
RELEASED = {
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout": None,
    "emb_pooler": "mean",
    "feed_forward_type": "geglu",
    "gradient_checkpointing": False,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "model_max_length": POSITIONS,
    "model_type": "bert",
    "pad_token_id": 0,
    "position_embedding_type": "alibi",
    "torch_dtype": "float32",
    "transformers_version": "4.26.0",
    "use_cache": True,
}
PROGRAMS = {False: "jinaai/jina-bert-implementation", True: "jinaai/jina-bert-v2-qk-post-norm"}
# Scales of norms, which are near 1.
NORM = re.compile(r"(LayerNorm|layernorm|layer_norm_\w)\.weight$")
LABELS = ("negative", "neutral", "positive")
# Case -> changed sizes, whether it is the program for code, and number of logits.
CASES = {
    "encoder": ({}, False, 0),
    "encoder_heads": (
        {"hidden_size": 36, "num_attention_heads": 6, "layer_norm_eps": 1e-3, "type_vocab_size": 1},
        False,
        0,
    ),
    "masked_lm_relu": ({"feed_forward_type": "reglu"}, False, 0),
    "encoder_code": ({"num_hidden_layers": 3}, True, 0),
    "masked_lm": ({}, False, 0),
    "masked_lm_code": ({}, True, 0),
    "classification": ({}, False, 3),
    "regression": ({}, False, 1),
    "token_classification": ({}, False, 5),
    "question_answering": ({}, False, 2),
    "multiple_choice": ({}, False, 1),
}
CLASSES = {
    "encoder": "Model",
    "masked_lm": "ForMaskedLM",
    "classification": "ForSequenceClassification",
    "regression": "ForSequenceClassification",
    "token_classification": "ForTokenClassification",
    "question_answering": "ForQuestionAnswering",
    "multiple_choice": "ForMultipleChoice",
}


def shapes(config: dict, task: str, for_code: bool, logits: int) -> dict[str, tuple[int, ...]]:
    """Name -> shape of the tensors of a file."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    found = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], width),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], width),
    }

    def norm(name: str) -> None:
        found.update({f"{name}.weight": (width,), f"{name}.bias": (width,)})

    def dense(name: str, rows: int = width, columns: int = width, bias: bool = True) -> None:
        found[f"{name}.weight"] = (rows, columns)
        if bias:
            found[f"{name}.bias"] = (rows,)

    norm("embeddings.LayerNorm")
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            dense(f"{layer}.attention.{part}")
        norm(f"{layer}.attention.output.LayerNorm")
        if for_code:
            for name in ("attention.self.layer_norm_q", "attention.self.layer_norm_k"):
                norm(f"{layer}.{name}")
            norm(f"{layer}.layer_norm_1")
            norm(f"{layer}.layer_norm_2")
        else:
            norm(f"{layer}.mlp.layernorm")
        gated, down = ("up_gated_layer", "down_layer") if for_code else ("gated_layers", "wo")
        dense(f"{layer}.mlp.{gated}", 2 * inner, width, bias=False)
        dense(f"{layer}.mlp.{down}", width, inner)
    if task not in ("masked_lm", "token_classification", "question_answering"):
        dense("pooler.dense")
    if task != "encoder":
        found = {f"bert.{name}": shape for name, shape in found.items()}
    if task == "masked_lm":
        dense("cls.predictions.transform.dense")
        norm("cls.predictions.transform.LayerNorm")
        found["cls.predictions.bias"] = (config["vocab_size"],)
    elif logits:
        dense("qa_outputs" if task == "question_answering" else "classifier", logits)
    return found


class Reference:
    """A file's model, for one row at a time."""

    def __init__(self, config: dict, tensors: dict[str, np.ndarray], for_code: bool):
        self.config, self.for_code = config, for_code
        self.tensors = {name: t.astype(np.float64) for name, t in tensors.items()}
        self.root = "bert." if any(name.startswith("bert.") for name in tensors) else ""

    def dense(self, x, name: str):
        y = x @ self.tensors[f"{name}.weight"].T
        return y + self.tensors.get(f"{name}.bias", 0.0)

    def norm(self, x, name: str):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.config["layer_norm_eps"])
        return x * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def slope(self, head: int) -> float:
        """By how much the scores of a head fall with each token of distance."""
        heads = self.config["num_attention_heads"]
        power = 2 ** math.floor(math.log2(heads))
        if head < power:
            return 2.0 ** (-8.0 * (head + 1) / power)
        # Every other one of those that twice as many heads would have.
        return 2.0 ** (-8.0 * (2 * (head - power) + 1) / (2 * power))

    def attention(self, x, is_token, layer: str):
        """The context [length, width], and the probabilities [heads, length, length]."""
        name = f"{layer}.attention.self"
        query, key, value = (self.dense(x, f"{name}.{part}") for part in ("query", "key", "value"))
        if self.for_code:
            query = self.norm(query, f"{name}.layer_norm_q")
            key = self.norm(key, f"{name}.layer_norm_k")
        size = x.shape[1] // self.config["num_attention_heads"]
        places = np.arange(len(x))
        contexts, probabilities = [], []
        for head in range(self.config["num_attention_heads"]):
            own = slice(head * size, (head + 1) * size)
            scores = query[:, own] @ key[:, own].T / math.sqrt(size)
            scores = scores - self.slope(head) * np.abs(places[:, None] - places[None, :])
            scores[:, ~is_token] = -np.inf
            raised = np.exp(scores - scores.max(-1, keepdims=True))
            probabilities.append(raised / raised.sum(-1, keepdims=True))
            contexts.append(probabilities[-1] @ value[:, own])
        return np.concatenate(contexts, axis=1), np.stack(probabilities)

    def layer(self, x, is_token, number: int):
        layer, act = f"{self.root}encoder.layer.{number}", self.config["feed_forward_type"]
        act = {"geglu": gelu, "reglu": lambda y: np.maximum(y, 0.0)}[act]
        context, probabilities = self.attention(x, is_token, layer)
        attended = self.dense(context, f"{layer}.attention.output.dense")
        attended = self.norm(x + attended, f"{layer}.attention.output.LayerNorm")
        if self.for_code:
            x = self.norm(x + attended, f"{layer}.layer_norm_1")
            up, gate = np.split(self.dense(x, f"{layer}.mlp.up_gated_layer"), 2, axis=1)
            fed = self.dense(up * act(gate), f"{layer}.mlp.down_layer")
            return self.norm(x + fed, f"{layer}.layer_norm_2"), probabilities
        x = attended
        gate, up = np.split(self.dense(x, f"{layer}.mlp.gated_layers"), 2, axis=1)
        fed = self.dense(act(gate) * up, f"{layer}.mlp.wo")
        return self.norm(x + fed, f"{layer}.mlp.layernorm"), probabilities

    def encode(self, token_ids, segment_ids, padding_mask):
        """Hidden states [layers + 1, length, width] and probabilities [layers, heads, length, length]."""
        words = self.tensors[f"{self.root}embeddings.word_embeddings.weight"][token_ids]
        types = self.tensors[f"{self.root}embeddings.token_type_embeddings.weight"][segment_ids]
        states, attentions = [self.norm(words + types, f"{self.root}embeddings.LayerNorm")], []
        for number in range(self.config["num_hidden_layers"]):
            x, probabilities = self.layer(states[-1], padding_mask == 1, number)
            states.append(x)
            attentions.append(probabilities)
        return np.stack(states), np.stack(attentions)

    def outputs(self, task: str, states) -> dict[str, np.ndarray]:
        """The outputs of a task for one row."""
        last = states[-1]
        if task == "masked_lm":
            x = gelu(self.dense(last, "cls.predictions.transform.dense"))
            x = self.norm(x, "cls.predictions.transform.LayerNorm")
            table = self.tensors[f"{self.root}embeddings.word_embeddings.weight"]
            return {"logits": x @ table.T + self.tensors["cls.predictions.bias"]}
        if task == "token_classification":
            return {"logits": self.dense(last, "classifier")}
        if task == "question_answering":
            logits = self.dense(last, "qa_outputs")
            return {"start_logits": logits[:, 0], "end_logits": logits[:, 1]}
        pooled = np.tanh(self.dense(last[0], f"{self.root}pooler.dense"))
        if task == "encoder":
            return {"sequence_output": last, "pooled_output": pooled}
        return {"logits": self.dense(pooled, "classifier")}


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def random_rows(rng, config: dict, lengths, specials) -> dict[str, np.ndarray]:
    """`[CLS] ... [SEP]` of random tokens, padded, with a second segment that begins somewhere."""
    pad, first, last, ordinary = specials
    shape = len(lengths), max(lengths)
    token_ids, segment_ids = np.full(shape, pad), np.zeros(shape, int)
    for row, length in enumerate(lengths):
        token_ids[row, :length] = rng.integers(ordinary, config["vocab_size"], length)
        token_ids[row, [0, length - 1]] = first, last
        if config["type_vocab_size"] > 1:
            segment_ids[row, rng.integers(1, length) : length] = 1
    mask = np.arange(shape[1]) < np.array(lengths)[:, None]
    arrays = {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": mask}
    return {name: values.astype(np.int32) for name, values in arrays.items()}


def make(case: str, task: str, changes: dict, for_code: bool, logits: int) -> None:
    directory = GOLDEN / NAME / case
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    rng = np.random.default_rng(zlib.crc32(case.encode()))
    vocabulary = vocabularies.ROBERTA if case == "encoder_code" else vocabularies.BERT
    config = {**RELEASED, **SIZES, **changes, "vocab_size": len(vocabulary) + 3}
    write = vocabularies.wordpiece(vocabulary, "BertTokenizer")
    specials = (
        (*map(vocabulary.index, ("[PAD]", "[CLS]", "[SEP]")), 5)
        if vocabulary is vocabularies.BERT
        else (1, 0, 2, 4)
    )
    if case == "encoder_code":
        write = vocabularies.write_roberta
    write(directory)
    config["_name_or_path"] = PROGRAMS[for_code]
    config["architectures"] = [f"JinaBert{CLASSES[task]}"]
    code = f"{PROGRAMS[for_code]}--modeling_bert.JinaBert"
    config["auto_map"] = {
        "AutoConfig": f"{PROGRAMS[for_code]}--configuration_bert.JinaBertConfig",
        "AutoModel": f"{code}Model",
        **{f"AutoModel{name}": code + name for name in CLASSES.values() if name != "Model"},
    }
    if task == "classification":
        config["id2label"] = {str(i): label for i, label in enumerate(LABELS)}
    elif task in ("regression", "token_classification"):
        config["id2label"] = {str(i): f"LABEL_{i}" for i in range(logits)}
    if task == "regression":
        config["problem_type"] = "regression"
    write_json(directory / "config.json", config)
    tensors = {
        name: rng.normal(NORM.search(name) is not None, 0.25, shape).astype("float32")
        for name, shape in shapes(config, task, for_code, logits).items()
    }
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})

    reference = Reference(config, tensors, for_code)
    lengths = (12, 9, 5, 7, 12, 4) if task == "multiple_choice" else (16, 11, 6, 3)
    inputs = random_rows(rng, config, lengths, specials)
    found: dict[str, list[np.ndarray]] = {}
    for row in zip(*inputs.values(), strict=True):
        states, attentions = reference.encode(*row)
        outputs = reference.outputs(task, states)
        if case == "encoder":
            outputs |= {"hidden_states": states, "attentions": attentions}
        for name, value in outputs.items():
            found.setdefault(name, []).append(value)
    arrays = {name: np.stack(rows).astype(np.float32) for name, rows in found.items()}
    for name in arrays.keys() & {"hidden_states", "attentions"}:
        arrays[name] = np.moveaxis(arrays[name], 0, 1)
    if task == "multiple_choice":
        inputs = {name: values.reshape(2, 3, -1) for name, values in inputs.items()}
        arrays = {"logits": arrays["logits"].reshape(2, 3)}
    np.savez_compressed(directory / "io.npz", **inputs, **arrays)


def main() -> None:
    file = GOLDEN / NAME / "cases.json"
    listing = json.loads(file.read_text())
    for case, (changes, for_code, logits) in CASES.items():
        make(case, listing["cases"][case]["task"], changes, for_code, logits)
        print(f"{NAME}/{case}: done.", flush=True)
    listing["made_with"] = {library.__name__: library.__version__ for library in (np, safetensors)}
    write_json(file, listing)


if __name__ == "__main__":
    main()
