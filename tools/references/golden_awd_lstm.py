"""Makes the golden checkpoints of AWD-LSTM and what torch's LSTM computes with them.

Each case is a tiny model with seeded random weights in a file as fast.ai's library or its program before that wrote
them, with words in a pickle, and three segments that `torch.nn.LSTM` reads one after the other, in float64, stored as
float32. Without dropout the equations of fast.ai's models are these alone: a table, LSTMs, a softmax that shares the
table. The loss of the last segment has the two penalties of activations.

    python tools/references/golden_awd_lstm.py  # torch, numpy
"""

import pickle

import numpy as np
import torch
from golden_files import GOLDEN, empty_directory, random_generator, write_json

WORDS = [
    *"xxunk xxpad xxbos xxeos xxfld xxrep xxwrep xxup xxmaj \n the cat sat on a tree and saw big red".split(
        " "
    ),
    *"house in city they ran it was good film bird . , ' n't 's do did not i we you".split(),
    *(str(number) for number in range(50)),
]
HIDDEN, LSTM, LAYERS, SEGMENTS, BATCH, LENGTH = 6, 10, 3, 3, 3, 7
ACTIVATION_PENALTY, CHANGE_PENALTY = 2.0, 1.0
SIZES = [LSTM] * (LAYERS - 1) + [HIDDEN]
# Those that are kept.
GRADIENTS = (
    *(
        "0.encoder.weight",
        "1.decoder.bias",
        "0.rnns.0.weight_hh_l0_raw",
        "0.rnns.1.module.weight_ih_l0",
    ),
    *("0.rnns.2.weight_hh_l0_raw", "0.rnns.2.module.bias_ih_l0", "0.rnns.1.module.bias_hh_l0"),
)
# Case -> task, name of the file.
CASES = {
    "causal_lm": ("causal_lm", "lstm_fwd.pth"),
    "causal_lm_program": ("causal_lm", "fwd_wt103.pth"),
    "encoder": ("encoder", "lm_enc.pth"),
}


def weights(case: str) -> dict[str, torch.Tensor]:
    """By the names of the library."""
    rng = random_generator(f"awd_lstm/{case}")

    def random(*shape: int) -> torch.Tensor:
        return torch.tensor(rng.normal(0, 0.5, shape).astype(np.float32))

    found = {"0.encoder.weight": random(len(WORDS), HIDDEN)}
    width = HIDDEN
    for layer, units in enumerate(SIZES):
        name = f"0.rnns.{layer}"
        found[f"{name}.weight_hh_l0_raw"] = random(4 * units, units)
        found[f"{name}.module.weight_ih_l0"] = random(4 * units, width)
        found[f"{name}.module.bias_ih_l0"] = random(4 * units)
        found[f"{name}.module.bias_hh_l0"] = random(4 * units)
        width = units
    found["1.decoder.bias"] = random(len(WORDS))
    return found


def stored(case: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The file's content: the table three times, recurrent weights twice."""
    tensors, table = dict(tensors), tensors["0.encoder.weight"]
    tensors |= {"0.encoder_dp.emb.weight": table.clone(), "1.decoder.weight": table.clone()}
    for layer in range(LAYERS):
        raw = tensors[f"0.rnns.{layer}.weight_hh_l0_raw"]
        # With the last mask.
        tensors[f"0.rnns.{layer}.module.weight_hh_l0"] = raw * (raw > 0)
    if case == "causal_lm_program":
        del tensors["1.decoder.bias"]
        tensors = {
            key: value for key, value in tensors.items() if not key.endswith("module.weight_hh_l0")
        }
        return {
            key.replace("encoder_dp.emb", "encoder_with_dropout.embed").replace(
                ".weight_hh_l0_raw", ".module.weight_hh_l0_raw"
            ): value
            for key, value in tensors.items()
        }
    if case == "encoder":
        return {key[2:]: value for key, value in tensors.items() if key.startswith("0.")}
    return tensors


def lstms(tensors: dict[str, torch.Tensor]) -> list:
    """Functions from tokens [batch, length, width] and (output, cell) to what a torch.nn.LSTM gives."""
    made, width = [], HIDDEN
    for layer, units in enumerate(SIZES):
        lstm, name = torch.nn.LSTM(width, units, batch_first=True).double(), f"0.rnns.{layer}"
        values = {"weight_hh_l0": tensors[f"{name}.weight_hh_l0_raw"]}
        for part in ("weight_ih_l0", "bias_ih_l0", "bias_hh_l0"):
            values[part] = tensors[f"{name}.module.{part}"]
        made.append(
            lambda *inputs, lstm=lstm, values=values: torch.func.functional_call(
                lstm, values, inputs
            )
        )
        width = units
    return made


def read(tensors, layers, token_ids, memory):
    """The last outputs, and output and cell of each LSTM after them."""
    x = tensors["0.encoder.weight"][torch.tensor(token_ids, dtype=torch.long)]
    after = []
    for layer, state in zip(layers, memory, strict=True):
        x, state = layer(x, tuple(part[None] for part in state))
        after.append(tuple(part[0] for part in state))
    return x, after


def make(case: str) -> dict:
    task, file = CASES[case]
    directory = GOLDEN / "awd_lstm" / case
    empty_directory(directory)
    single = weights(case)
    torch.save(stored(case, single), directory / file)
    (directory / "itos_wt103.pkl").write_bytes(pickle.dumps(WORDS))
    tensors = {key: value.double().requires_grad_() for key, value in single.items()}
    layers = lstms(tensors)
    rng = random_generator(f"awd_lstm/{case}/inputs")
    shape = (SEGMENTS, BATCH, LENGTH)
    io = {"token_ids": rng.integers(0, len(WORDS), shape).astype("int32")}
    labels = rng.integers(0, len(WORDS), shape).astype("int32")
    labels[1, 0, 2] = -100
    memory = [
        tuple(torch.zeros(BATCH, units, dtype=torch.double) for _ in range(2)) for units in SIZES
    ]
    outputs, log_probs = [], []
    for number in range(SEGMENTS):
        memory = [tuple(part.detach() for part in parts) for parts in memory]
        x, memory = read(tensors, layers, io["token_ids"][number], memory)
        outputs.append(x.detach().numpy())
        # Widths differ: side by side.
        joined = torch.cat([part for parts in memory for part in parts], -1)
        io[f"memory_{number}"] = joined.detach().numpy().astype("float32")[None]
        bias = 0.0 if case == "causal_lm_program" else tensors["1.decoder.bias"]
        scores = torch.log_softmax(x @ tensors["0.encoder.weight"].T + bias, -1)
        log_probs.append(scores)
    if task == "encoder":
        io["sequence_output"] = np.stack(outputs).astype("float32")
    else:
        all_scores = torch.stack(log_probs)
        wanted = torch.tensor(np.maximum(labels, 0), dtype=torch.long)
        of_labels = torch.gather(all_scores, -1, wanted[..., None])[..., 0]
        of_labels = torch.where(torch.tensor(labels == -100), 0.0, of_labels)
        io["labels"] = labels
        io["vocab_log_probs"] = all_scores.detach().numpy().astype("float32")
        io["log_probs"] = of_labels.detach().numpy().astype("float32")
        loss = -of_labels[-1].mean() + ACTIVATION_PENALTY * x.pow(2).mean()
        loss = loss + CHANGE_PENALTY * (x[:, 1:] - x[:, :-1]).pow(2).mean()
        loss.backward()
        io["loss"] = np.float32(loss.item())
        for name in GRADIENTS:
            if tensors[name].grad is not None:
                io[f"gradient/{name}"] = tensors[name].grad.numpy().astype("float32")
    np.savez(directory / "io.npz", **io)
    return {"task": task, "reference": "torch"}


if __name__ == "__main__":
    cases = {case: make(case) for case in CASES}
    versions = {"numpy": np.__version__, "torch": torch.__version__}
    write_json(GOLDEN / "awd_lstm" / "cases.json", {"versions": versions, "cases": cases})
