"""Makes tests/golden/gliner: directories of GLiNER models with random weights, and gliner's logits, spans, loss and gradients.

    pip install gliner==0.2.29 transformers==5.16.1
    python tools/references/golden_gliner.py

A case is a directory that gliner writes around an encoder of tests/golden, with `answers.json` (texts, types and the
spans that gliner finds in them, and a batch of training) and `arrays.npz` (logits of each row of types, without what
gliner masks; the loss of the batch and its gradients).
"""

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from gliner import GLiNER, GLiNERConfig
from transformers import AutoConfig

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
TARGET = GOLDEN / "gliner"
# Case -> encoder, width of the head, number of LSTM layers, most words of a span, whether in safetensors.
CASES = {
    "deberta_v2": ("deberta_v2/encoder", 24, 1, 5, False),
    "modernbert": ("modernbert/encoder", 32, 2, 3, True),
}
TEXTS = [
    "The cat sat on the big tree, and she was in the old red house!",
    "a bird",
    "we ran to the well-known city, it was good, not very bad.",
]
TYPES = ["big cat", "house", "the old city"]
MANY = [f"{word} {number}" for word in ("cat", "tree", "red bird") for number in range(10)]
NER = [[[1, 1, "big cat"], [5, 6, "house"], [4, 6, "the old city"]], [[1, 1, "house"]], []]


def make(case: str) -> None:
    encoder, size, layers, width, is_safe = CASES[case]
    source, directory = GOLDEN / encoder, TARGET / case
    torch.manual_seed(7)
    with tempfile.TemporaryDirectory() as folder:
        for file in source.glob("*"):
            if file.name != "io.npz":
                shutil.copy(file, folder)
        settings = AutoConfig.from_pretrained(folder).to_dict()
        # Long enough for 30 types.
        settings["max_position_embeddings"] = 256
        config = GLiNERConfig(
            model_name=folder,
            hidden_size=size,
            num_rnn_layers=layers,
            max_width=width,
            max_len=64,
            dropout=0.1,
            encoder_config=settings,
        )
        model = GLiNER.from_config(config, backbone_from_pretrained=False)
    shutil.rmtree(directory, ignore_errors=True)
    # Not the folder that it was read from.
    model.config.model_name = model.config.encoder_config._name_or_path = f"gliner/{case}"
    network = model.model.eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            scale = 0.19 if parameter.dim() > 1 else 0.05
            if "norm" not in name.lower():
                parameter.normal_(0, scale)
    model.save_pretrained(directory, safe_serialization=is_safe)
    network.double()
    answers, arrays = {"texts": TEXTS, "found": []}, {}
    for number, types in enumerate((TYPES[:1], TYPES, MANY)):
        batch = _batch(model, [[*words] for words in _words(model)], types)
        with torch.no_grad():
            logits = network(**batch).logits.numpy()
        mask = batch["span_mask"].numpy().reshape(logits.shape[:3])
        arrays[f"logits_{number}"] = np.float32(np.where(mask[..., None], logits, 0))
        # A tenth of the spans, some of them nested.
        threshold = float(np.quantile(1 / (1 + np.exp(-logits[mask])), 0.9).round(4))
        for is_flat in (True, False):
            spans = model.inference(TEXTS, types, flat_ner=is_flat, threshold=threshold)
            rows = [[[s["start"], s["end"], s["label"], s["score"]] for s in row] for row in spans]
            answers["found"].append(
                {"types": types, "flat": is_flat, "threshold": threshold, "spans": rows}
            )
    batch = _batch(model, _words(model), TYPES, NER)
    loss = network(**batch).loss
    loss.backward()
    arrays["loss"] = np.float64(loss.item())
    for name, parameter in network.named_parameters():
        if parameter.grad is not None:
            arrays[f"gradient/{name}"] = np.float32(parameter.grad.numpy())
    answers |= {"training": {"types": TYPES, "entities": NER}}
    (directory / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
    np.savez_compressed(directory / "arrays.npz", **arrays)


def _words(model: GLiNER) -> list[list[str]]:
    split = model.data_processor.words_splitter
    return [[word for word, _, _ in split(text)] for text in TEXTS]


def _batch(model: GLiNER, words, types, entities=None) -> dict[str, torch.Tensor]:
    rows = [
        {"tokenized_text": row, "ner": [tuple(e) for e in entities[i]] if entities else []}
        for i, row in enumerate(words)
    ]
    collator = model.data_collator_class(
        model.config,
        data_processor=model.data_processor,
        return_tokens=False,
        prepare_labels=entities is not None,
    )
    batch = collator(rows, entity_types=[[*types] for _ in rows])
    return {name: value for name, value in batch.items() if torch.is_tensor(value)}


if __name__ == "__main__":
    for case in CASES:
        make(case)
