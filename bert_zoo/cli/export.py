"""Exports a model for serving: as a SavedModel, for LiteRT or for ONNX Runtime.

bert_zoo export --model minilm_l6 --task embedding --output exported/minilm_l6
bert_zoo export --model runs/minilm_l6-rte/model --pairs --output exported/rte

bert_zoo export --model minilm_l6 --task embedding --format litert --quantize int8 --output exported/int8

docs/export.md describes the SavedModel, docs/serving.md the other formats.
"""

from bert_zoo.cli import program
from bert_zoo.cli.program import Program
from bert_zoo.serving import check_options

PROGRAM = Program(__doc__, required=("model", "output"))
_MODEL = PROGRAM.model()
_TASK = PROGRAM.string(
    "task",
    None,
    "The task; by default the one the directory was saved with, else the encoder.",
    check=program.task,
)
_OUTPUT = PROGRAM.string("output", None, "The directory to write.")
_PAIRS = PROGRAM.bool("pairs", False, "Make the signature serving_default take pairs of texts.")
_LABEL_TEMPLATE = PROGRAM.string(
    "label_template",
    None,
    "Add the signature zero_shot, which takes texts and labels; a sentence with {} for a label.",
)
_FORMAT = PROGRAM.string("format", "saved_model", "Format: saved_model, litert or onnx.")
_QUANTIZE = PROGRAM.string(
    "quantize", None, "Number type of weights, for litert and onnx: int8 or float16."
)
_LAYOUT = PROGRAM.string(
    "layout", "bert_zoo", "Layout of onnx: bert_zoo, or hf for transformers.js and optimum."
)
_MAX_LENGTH = PROGRAM.integer(
    "max_length", None, "Maximum tokens of a text or pair; by default the model's own."
)


def main(arguments: list[str]) -> None:
    PROGRAM.check()
    options = {"pairs": _PAIRS.value, "label_template": _LABEL_TEMPLATE.value}
    check_options(_FORMAT.value, _QUANTIZE.value, _LAYOUT.value, text=True, **options)
    import bert_zoo

    model = bert_zoo.load(_MODEL.value, _TASK.value, max_length=_MAX_LENGTH.value)
    bert_zoo.export(
        model,
        _OUTPUT.value,
        format=_FORMAT.value,
        quantize=_QUANTIZE.value,
        layout=_LAYOUT.value,
        **options,
    )
    print(f"Wrote {_MODEL.value}, task {model.task}, format {_FORMAT.value}, to {_OUTPUT.value}.")
