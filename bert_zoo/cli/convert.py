"""Converts a model to another format.

bert_zoo convert --model path/to/tf1_checkpoint --output for_hf --format hf
bert_zoo convert --model runs/minilm_l6-sst2 --output for_keras_hub --format keras_hub
bert_zoo convert --model bert_base --task encoder --output bert_base

It reads every format that bert_zoo.load reads; docs/migrating/index.md lists them.
"""

from bert_zoo.cli import program
from bert_zoo.cli.program import Program

PROGRAM = Program(__doc__, required=("model", "output"))
_MODEL = PROGRAM.model()
_OUTPUT = PROGRAM.string("output", None, "The directory to write.")
_FORMAT = PROGRAM.enum(
    "format",
    "bert_zoo",
    ["bert_zoo", "hf", "keras_hub"],
    "Format to write: bert_zoo's own, Hugging Face transformers' or KerasHub's.",
)
_TASK = PROGRAM.string(
    "task",
    None,
    "Task whose head is also written, or encoder for none; by default the model's own.",
    check=program.task,
)


def main(arguments: list[str]) -> None:
    PROGRAM.check()
    import bert_zoo
    from bert_zoo.loading.load import stored_task

    model = bert_zoo.load(_MODEL.value, _TASK.value or stored_task(_MODEL.value))
    bert_zoo.save(model, _OUTPUT.value, format=_FORMAT.value)
    print(f"Wrote {_MODEL.value}, task {model.task}, format {_FORMAT.value}, to {_OUTPUT.value}.")
