"""Writes a Hugging Face classifier as ONNX, from torch, for `serve.py` of this folder.

    python export_onnx.py MODEL_DIRECTORY DIRECTORY [int8]

Each directory gets `model.onnx` and `tokenizer.json`; the second one, if there is one, weights in int8
(dynamic quantization, a scale for each output).
"""

import sys
from pathlib import Path

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from transformers import AutoModelForSequenceClassification, AutoTokenizer

NAMES = ("input_ids", "attention_mask", "token_type_ids")


class Logits(torch.nn.Module):
    """A classifier that takes its inputs by position and gives a tensor."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model(**dict(zip(NAMES, inputs, strict=True))).logits


def main() -> None:
    source, target, *quantize = sys.argv[1:]
    directory = Path(target)
    directory.mkdir()
    path = directory / "model.onnx"
    # The attention that the exporter can write with free shapes.
    model = AutoModelForSequenceClassification.from_pretrained(
        source, attn_implementation="eager", dtype=torch.float32
    )
    tokenizer = AutoTokenizer.from_pretrained(source)
    example = tokenizer(["a text", "another text, a longer one"], padding=True, return_tensors="pt")
    in_rust = tokenizer.backend_tokenizer
    in_rust.enable_padding()
    in_rust.enable_truncation(tokenizer.model_max_length)
    in_rust.save(str(directory / "tokenizer.json"))
    torch.onnx.export(
        Logits(model).eval(),
        tuple(example[name] for name in NAMES),
        path,
        input_names=[*NAMES],
        output_names=["logits"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in NAMES} | {"logits": {0: "batch"}},
        opset_version=17,
        dynamo=False,
    )
    if quantize:
        quantize_dynamic(path, path, per_channel=True, weight_type=QuantType.QInt8)


if __name__ == "__main__":
    main()
