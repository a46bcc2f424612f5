"""Writes a Hugging Face model as ONNX, from torch, for `serve.py` of this folder: classifiers, and
those that answer questions.

    python export_onnx.py MODEL_DIRECTORY DIRECTORY [int8]

Each directory gets `model.onnx` and `tokenizer.json`; the second one, if there is one, weights in int8
(dynamic quantization, a scale for each output).
"""

import sys
from pathlib import Path

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

NAMES = ("input_ids", "attention_mask", "token_type_ids")
BY_TOKEN = {0: "batch", 1: "length"}
# By the end of an architecture's name: the class, and the free axes of its outputs.
HEADS = {
    "SequenceClassification": (AutoModelForSequenceClassification, {"logits": {0: "batch"}}),
    "QuestionAnswering": (
        AutoModelForQuestionAnswering,
        {"start_logits": BY_TOKEN, "end_logits": BY_TOKEN},
    ),
}


class Logits(torch.nn.Module):
    """A model that takes its inputs by position and gives the outputs of the given names."""

    def __init__(self, model, outputs: list[str]):
        super().__init__()
        self.model = model
        self.outputs = outputs

    def forward(self, *inputs):
        found = self.model(**dict(zip(NAMES, inputs, strict=True)))
        return tuple(found[name] for name in self.outputs)


def main() -> None:
    source, target, *quantize = sys.argv[1:]
    directory = Path(target)
    directory.mkdir()
    path = directory / "model.onnx"
    (architecture,) = AutoConfig.from_pretrained(source).architectures
    model_class, outputs = HEADS[architecture.partition("For")[2]]
    # The attention that the exporter can write with free shapes.
    model = model_class.from_pretrained(source, attn_implementation="eager", dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(source)
    example = tokenizer(["a text", "another text, a longer one"], padding=True, return_tensors="pt")
    in_rust = tokenizer.backend_tokenizer
    in_rust.enable_padding()
    in_rust.enable_truncation(tokenizer.model_max_length)
    in_rust.save(str(directory / "tokenizer.json"))
    torch.onnx.export(
        Logits(model, [*outputs]).eval(),
        tuple(example[name] for name in NAMES),
        path,
        input_names=[*NAMES],
        output_names=[*outputs],
        dynamic_axes=dict.fromkeys(NAMES, BY_TOKEN) | outputs,
        opset_version=17,
        dynamo=False,
    )
    if quantize:
        quantize_dynamic(path, path, per_channel=True, weight_type=QuantType.QInt8)


if __name__ == "__main__":
    main()
