"""Makes the golden checkpoints of ELMo, and what its published equations give for them, in float64.

The reference below is written from the paper and the options' meaning, word by word and step by step: rows
are cut to their lengths and turned round, nothing is masked. Where nothing is clipped, its LSTMs are
torch's with `proj_size`, which is checked. It needs torch and h5py:

    python tools/references/golden_elmo.py
"""

import json
import pathlib

import h5py
import numpy as np
import torch
from golden_files import empty_directory, make_all, random_generator, write_json
from safetensors.numpy import save_file

TEXTS = (
    "The cat sat on the mat .",
    "naïve  Zürich-öl",
    " 日本語 extraordinarily-long\tb ",
    "<S> a </S>",
)
BEGIN, END, WORD_BEGIN, WORD_END, PAD = 256, 257, 258, 259, 260
OPTIONS = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": 8,
        "cell_clip": 0.3,
        "proj_clip": 0.2,
        "dim": 20,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": [[1, 4], [2, 6], [3, 8]],
        "n_highway": 2,
        "embedding": {"dim": 5},
        "n_characters": 262,
        "max_characters_per_token": 12,
    },
    "n_tokens_vocab": 90,
    "dropout": 0.1,
    "bidirectional": True,
}
PLAIN = {
    **OPTIONS,
    "lstm": {
        "use_skip_connections": False,
        "projection_dim": 18,
        "cell_clip": None,
        "proj_clip": 0.2,
        "dim": 18,
        "n_layers": 3,
    },
    "char_cnn": {
        key: value
        for key, value in OPTIONS["char_cnn"].items()
        if key not in ("n_highway", "activation")
    }
    | {"activation": "tanh"},
}
WORDS = {key: value for key, value in OPTIONS.items() if key != "char_cnn"}
# As bilm-tf's vocabularies, which begin with the special words.
VOCABULARY = ["<S>", "</S>", "<UNK>", *"the cat sat on mat . a naïve 日本語 long".split()]
VOCABULARY += [f"w{i}" for i in range(len(VOCABULARY), 90)]
CASES = {
    "encoder": (OPTIONS, "encoder"),
    "encoder_of_words": (WORDS, "encoder"),
    "encoder_plain": (PLAIN, "encoder"),
    "classification": (OPTIONS, "classification"),
    "token_classification": (OPTIONS, "token_classification"),
}


def word_ids(word: str, options: dict) -> int | list[int]:
    """A word's number, or ids of its characters, one more than the program's own, as its files for use have them."""
    if "char_cnn" not in options:
        return VOCABULARY.index(word if word in VOCABULARY else "<UNK>")
    size = options["char_cnn"]["max_characters_per_token"]
    inner = {"<S>": [BEGIN], "</S>": [END]}.get(word) or [*word.encode()[: size - 2]]
    ids = [WORD_BEGIN, *inner, WORD_END]
    return [i + 1 for i in ids + [PAD] * (size - len(ids))]


def random_tensors(options: dict, rng) -> dict[str, np.ndarray]:
    lstm, tensors = options["lstm"], {}
    width, cells = lstm["projection_dim"], lstm["dim"]

    def normal(*shape: int, scale: float = 0.5) -> np.ndarray:
        return rng.normal(0, scale, shape).astype(np.float32)

    if "char_cnn" not in options:
        tensors["embedding"] = normal(len(VOCABULARY), width)
    else:
        cnn = options["char_cnn"]
        wide = sum(n for _, n in cnn["filters"])
        tensors["char_embed"] = normal(261, cnn["embedding"]["dim"], scale=1)
        for i, (size, number) in enumerate(cnn["filters"]):
            tensors[f"CNN/W_cnn_{i}"] = normal(1, size, cnn["embedding"]["dim"], number)
            tensors[f"CNN/b_cnn_{i}"] = normal(number)
        for i in range(cnn.get("n_highway", 0)):
            for part in ("carry", "transform"):
                tensors[f"CNN_high_{i}/W_{part}"] = normal(wide, wide)
                tensors[f"CNN_high_{i}/b_{part}"] = normal(wide)
        if wide != width:
            tensors |= {"CNN_proj/W_proj": normal(wide, width), "CNN_proj/b_proj": normal(width)}
    for direction in (0, 1):
        for i in range(lstm["n_layers"]):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{i}/LSTMCell/"
            tensors |= {f"{cell}W_0": normal(2 * width, 4 * cells), f"{cell}B": normal(4 * cells)}
            if cells != width:
                tensors[f"{cell}W_P_0"] = normal(cells, width)
    return tensors


def word_vector(ids: int | list[int], tensors, options):
    if isinstance(ids, int):
        return tensors["embedding"][ids]
    cnn = options["char_cnn"]
    table = torch.cat([torch.zeros_like(tensors["char_embed"][:1]), tensors["char_embed"]])
    x = table[torch.tensor(ids)]
    squash = {"relu": torch.relu, "tanh": torch.tanh}[cnn["activation"]]
    found = []
    for i, (size, _) in enumerate(cnn["filters"]):
        kernel = tensors[f"CNN/W_cnn_{i}"][0].flatten(0, 1)
        windows = torch.stack([x[k : k + size].flatten() for k in range(len(ids) - size + 1)])
        found.append(squash((windows @ kernel + tensors[f"CNN/b_cnn_{i}"]).max(0).values))
    x = torch.cat(found)
    for i in range(cnn.get("n_highway", 0)):
        part = {
            name: x @ tensors[f"CNN_high_{i}/W_{name}"] + tensors[f"CNN_high_{i}/b_{name}"]
            for name in ("carry", "transform")
        }
        gate = torch.sigmoid(part["carry"])
        x = gate * torch.relu(part["transform"]) + (1 - gate) * x
    if "CNN_proj/W_proj" in tensors:
        x = x @ tensors["CNN_proj/W_proj"] + tensors["CNN_proj/b_proj"]
    return x


def lstm(x, h, c, cell: str, tensors, options):
    """One direction of a layer over [length, width]: outputs, and the last output and cell."""
    outputs, projection = [], tensors.get(f"{cell}W_P_0")
    for token in x:
        z = torch.cat([token, h]) @ tensors[f"{cell}W_0"] + tensors[f"{cell}B"]
        i, j, f, o = z.chunk(4)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(j)
        if clip := options["lstm"]["cell_clip"]:
            c = c.clamp(-clip, clip)
        h = torch.sigmoid(o) * torch.tanh(c)
        if projection is not None:
            h = h @ projection
            if clip := options["lstm"]["proj_clip"]:
                h = h.clamp(-clip, clip)
        outputs.append(h)
    return torch.stack(outputs), h, c


def layers_of(words: list[int] | list[list[int]], state, tensors, options):
    """Outputs of all layers for a row of words [layers + 1, words, 2 * width], and the new state."""
    marks = [word_ids(mark, options) for mark in ("<S>", "</S>")]
    vectors = [word_vector(ids, tensors, options) for ids in (marks[0], *words, marks[1])]
    x = torch.stack(vectors)
    width, sides = options["lstm"]["projection_dim"], [x, x.flip(0)]
    layers, new = [torch.cat([x, x], -1)], []
    for i in range(options["lstm"]["n_layers"]):
        after = []
        for direction in (0, 1):
            before = state[i][direction]
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{i}/LSTMCell/"
            found, *last = lstm(
                sides[direction], before[:width], before[width:], cell, tensors, options
            )
            if i and options["lstm"]["use_skip_connections"]:
                found = found + sides[direction]
            sides[direction] = found
            after.append(torch.cat(last))
        new.append(torch.stack(after))
        layers.append(torch.cat([sides[0], sides[1].flip(0)], -1))
    return torch.stack(layers)[:, 1:-1], torch.stack(new)


def outputs_of(ids_of_words, mask, state, tensors, options):
    """[layers + 1, batch, words, 2 * width], zeros at padding; and the new state [layers, batch, 2, ...]."""
    rows, states = [], []
    for ids, real, before in zip(ids_of_words, mask, state.unbind(1), strict=True):
        found, new = layers_of(ids[: real.sum()].tolist(), before, tensors, options)
        rows.append(torch.nn.functional.pad(found, (0, 0, 0, len(real) - int(real.sum()))))
        states.append(new)
    return torch.stack(rows, 1), torch.stack(states, 1)


def zero_state(rows: int, options):
    sizes = options["lstm"]
    shape = (sizes["n_layers"], rows, 2, sizes["projection_dim"] + sizes["dim"])
    return torch.zeros(shape, dtype=torch.float64)


def check_against_torch(rng) -> None:
    """Where nothing is clipped, an LSTM is torch's, whose gates have another order."""
    width, cells, name = 8, 20, "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/"
    free = {"lstm": {"cell_clip": None, "proj_clip": None}}
    tensors = {k: torch.tensor(v).double() for k, v in random_tensors(OPTIONS, rng).items()}
    theirs = torch.nn.LSTM(width, cells, proj_size=width).double()
    order = [0, 2, 1, 3]  # input, forget, new, output

    def gates(x):
        return torch.cat([x.chunk(4)[k] for k in order])

    bias = gates(tensors[f"{name}B"])
    bias[cells : 2 * cells] += 1
    weights = (gates(tensors[f"{name}W_0"].T), bias, tensors[f"{name}W_P_0"].T)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(weights[0][:, :width])
        theirs.weight_hh_l0.copy_(weights[0][:, width:])
        theirs.bias_ih_l0.copy_(weights[1])
        theirs.bias_hh_l0.zero_()
        theirs.weight_hr_l0.copy_(weights[2])
        x = torch.tensor(rng.normal(0, 1, (7, width)))
        ours, *_ = lstm(
            x, torch.zeros(width).double(), torch.zeros(cells).double(), name, tensors, free
        )
        assert torch.allclose(theirs(x)[0], ours, atol=1e-12)


def bert_zoo_names(tensors, options) -> dict[str, tuple[str, ...]]:
    """bert_zoo's name of a variable -> the tensors that it is made of, side by side."""
    names = {"embeddings/table": ("char_embed",)}
    for i, _ in enumerate(options["char_cnn"]["filters"]):
        names |= {
            f"embeddings/kernel_{i}": (f"CNN/W_cnn_{i}",),
            f"embeddings/bias_{i}": (f"CNN/b_cnn_{i}",),
        }
    for i in range(options["char_cnn"].get("n_highway", 0)):
        for variable, letter in (("kernel", "W"), ("bias", "b")):
            parts = (f"CNN_high_{i}/{letter}_carry", f"CNN_high_{i}/{letter}_transform")
            names[f"embeddings/highway_{i}/{variable}"] = parts
    names |= {
        f"embeddings/projection/{v}": (f"CNN_proj/{v[0] if v == 'bias' else 'W'}_proj",)
        for v in ("kernel", "bias")
    }
    for number, direction in enumerate(("forward", "backward")):
        for i in range(options["lstm"]["n_layers"]):
            for variable, stored in (("kernel", "W_0"), ("bias", "B"), ("projection", "W_P_0")):
                names[f"stack/layer_{i}/{direction}/{variable}"] = (
                    f"RNN_{number}/RNN/MultiRNNCell/Cell{i}/LSTMCell/{stored}",
                )
    return {f"encoder/{ours}": theirs for ours, theirs in names.items()}


def with_head(task: str, outputs, mask, rng):
    """The head's tensors under bert_zoo's names, and the arrays of its outputs, with a loss."""
    head = {
        "classifier/dense/kernel": rng.normal(0, 0.5, (outputs.shape[-1], 3)),
        "classifier/dense/bias": rng.normal(0, 0.5, 3),
    }
    head = {
        k: torch.tensor(v.astype(np.float32)).double().requires_grad_() for k, v in head.items()
    }
    x, real = outputs[-1], torch.tensor(mask).double()
    labels = rng.integers(0, 3, mask.shape if task == "token_classification" else len(mask))
    if task == "classification":
        x = x.sum(1) / real.sum(1, keepdim=True)
    else:
        labels = np.where(mask == 1, labels, -100)
    logits = x @ head["classifier/dense/kernel"] + head["classifier/dense/bias"]
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, -2), torch.tensor(labels).flatten(), ignore_index=-100
    )
    return head, logits, labels.astype(np.int32), loss


def as_arrays(values: dict) -> dict[str, np.ndarray]:
    return {
        name: value.detach().float().numpy() if torch.is_tensor(value) else value
        for name, value in values.items()
    }


def make(name: str, case: tuple[dict, str], golden: pathlib.Path) -> None:
    options, task = case
    directory = golden / "elmo" / name
    empty_directory(directory)
    rng = random_generator(f"elmo/{name}")
    check_against_torch(rng)
    stored = random_tensors(options, rng)
    is_task = task != "encoder"
    tensors = {k: torch.tensor(v).double().requires_grad_(is_task) for k, v in stored.items()}
    rows = [[word_ids(word, options) for word in text.split()] for text in TEXTS]
    longest = max(map(len, rows))
    words = np.zeros((len(rows), longest, *np.shape(rows[0][0])), np.int32)
    for row, ids in zip(words, rows, strict=True):
        row[: len(ids)] = ids
    mask = np.array([[i < len(ids) for i in range(longest)] for ids in rows], np.int32)
    read = "char_ids" if "char_cnn" in options else "token_ids"
    io = {read: words, "padding_mask": mask, "texts": np.array(TEXTS)}
    state = zero_state(len(rows), options)
    outputs, new = outputs_of(words, mask, state, tensors, options)
    if not is_task:
        io |= {"sequence_output": outputs[-1], "hidden_states": outputs}
        (directory / "options.json").write_text(json.dumps(options, indent=2) + "\n")
        with h5py.File(directory / "weights.hdf5", "w") as file:
            for key, tensor in stored.items():
                file[key] = tensor
        if read == "token_ids":
            (directory / "vocab-words.txt").write_text("".join(f"{word}\n" for word in VOCABULARY))
        if name == "encoder":  # two words of each row after the whole rows
            again = {"char_ids": words[:, :2], "memory": new}
            second, last = outputs_of(words[:, :2], mask[:, :2], new, tensors, options)
            again |= {"sequence_output": second[-1], "new_memory": last}
            np.savez(directory / "carried.npz", **as_arrays(again))
    else:
        head, logits, labels, loss = with_head(task, outputs, mask, rng)
        loss.backward()
        io |= {"logits": logits, "labels": labels, "loss": loss}
        named = {}
        for ours, theirs in bert_zoo_names(tensors, options).items():
            parts = [stored[key] for key in theirs]
            grads = [tensors[key].grad for key in theirs]
            if "kernel_" in ours:
                parts, grads = [parts[0][0]], [grads[0][0]]
            named[ours] = np.concatenate(parts, -1)
            io[f"gradient/{ours}"] = torch.cat(grads, -1)
        for ours, value in head.items():
            named[ours] = value.detach().float().numpy()
            io[f"gradient/{ours}"] = value.grad
        save_file(named, directory / "model.safetensors", {"format": "bert_zoo"})
        sizes, cnn = options["lstm"], options["char_cnn"]
        config = {
            "cell_size": sizes["dim"],
            "projection_size": sizes["projection_dim"],
            "num_layers": sizes["n_layers"],
            "vocab_size": options["n_tokens_vocab"],
            "character_size": cnn["embedding"]["dim"],
            "max_characters": cnn["max_characters_per_token"],
            "filters": cnn["filters"],
            "num_highways": cnn["n_highway"],
            "cell_clip": sizes["cell_clip"],
            "projection_clip": sizes["proj_clip"],
        }
        write_json(
            directory / "bert_zoo.json",
            {
                "format_version": 1,
                "family": "elmo",
                "task": task,
                "config": config,
                "labels": ["A", "B", "C"],
                "pooling": {"mode": "mean", "normalize": True},
                "text": {"lowercase": None, "max_length": 40},
            },
        )
        config = {
            "tokenizer_class": "CharacterTokenizer",
            "max_characters": config["max_characters"],
        }
        write_json(directory / "tokenizer_config.json", config)
    np.savez(directory / "io.npz", **as_arrays(io))


if __name__ == "__main__":
    make_all(__doc__, CASES, make)
