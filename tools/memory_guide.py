"""Prints what fits into which device in training, or measures one point of it on this machine.

python tools/memory_guide.py
python tools/memory_guide.py --measure minilm_l6 --batch_size 32 --max_length 128

A measurement is the growth of this process's largest resident memory over three training steps on a
CPU, after a step of a tiny model. It needs a machine with that much memory left.
"""

from absl import app, flags
from resident_memory import peak_memory

_MEASURE = flags.DEFINE_string("measure", None, "A name of bert_zoo.list_models().")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Rows a step.", lower_bound=1)
_MAX_LENGTH = flags.DEFINE_integer("max_length", 128, "Tokens a row.", lower_bound=1)
_TASK = flags.DEFINE_enum("task", "classification", ["classification", "masked_lm"], "The head.")
_DTYPE = flags.DEFINE_enum("dtype", "float32", ["float32", "mixed_bfloat16"], "The dtype policy.")
_REMATERIALIZE = flags.DEFINE_bool("rematerialize", False, "Gradient checkpointing.")

# One checkpoint of each size; those with the same sizes need the same, but for their vocabularies.
CHECKPOINTS = """
minilm_l6 bert_small bert_base_uncased bert_large_uncased bert_base_multilingual_cased
distilroberta_base roberta_base roberta_large xlm_roberta_base xlm_roberta_large
albert_base albert_large albert_xlarge albert_xxlarge spanbert_base spanbert_large
transformer_xl_wt103 transformer_xl_enwik8
""".split()
LENGTHS = (128, 512)
MIB = 2**20


def guide() -> str:
    """Tables in Markdown: for each length and checkpoint, the largest batch for each device."""
    return "\n\n".join(f"Rows of {length} tokens:\n\n{_table(length)}" for length in LENGTHS)


def _table(length: int) -> str:
    from bert_zoo import describe, memory

    lines = [
        ["checkpoint", *memory.DEVICES],
        ["---"] + ["---:"] * len(memory.DEVICES),
    ]
    for name in CHECKPOINTS:
        batches = describe(name, max_length=length)["largest_batch"].values()
        lines.append(
            [f"`{name}`"]
            + [" · ".join(str(fits[device]) for fits in batches) for device in memory.DEVICES]
        )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def measured() -> int:
    """Bytes that training steps of the model that the flags describe add to this process."""
    import bert_zoo
    from bert_zoo import models
    from bert_zoo.registry import registry
    from bert_zoo.training.freezing import rematerialize

    family, checkpoint = registry().resolve(_MEASURE.value)
    tiny = family.config(checkpoint).replace(
        vocab_size=50, hidden_size=8, num_heads=2, num_layers=1, intermediate_size=8
    )
    classes = {"num_classes": 2} if _TASK.value == "classification" else {}
    encoder = models.Encoder(tiny, family.name, dtype=_DTYPE.value)
    # What TensorFlow and oneDNN set up once is no part of the model's memory.
    _train(models.TASKS[_TASK.value](encoder, **classes), batch_size=2, length=8)
    before = peak_memory()
    model = bert_zoo.load(
        checkpoint.full_name, task=_TASK.value, weights=None, dtype=_DTYPE.value, **classes
    )
    if _REMATERIALIZE.value:
        rematerialize(model)
    _train(model, _BATCH_SIZE.value, _MAX_LENGTH.value)
    return peak_memory() - before


def _train(model, batch_size: int, length: int) -> None:
    import keras
    import numpy as np

    from bert_zoo.training.optimizers import bert_adamw

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=bert_adamw(), loss=loss)
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 50, (batch_size, length), dtype="int32")
    labels = ids if model.task == "masked_lm" else ids[:, 0] % 2
    for _ in range(3):
        model.train_on_batch({"token_ids": ids, "padding_mask": np.ones_like(ids)}, labels)


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; options begin with --.")
    if _MEASURE.value is None:
        print(guide())
        return
    import bert_zoo
    from bert_zoo.memory import SETTINGS

    card = bert_zoo.describe(
        _MEASURE.value,
        batch_size=_BATCH_SIZE.value,
        max_length=_MAX_LENGTH.value,
        task=_TASK.value,
    )
    chosen = {"dtype": _DTYPE.value, "rematerialize": _REMATERIALIZE.value}
    words = next(words for words, options in SETTINGS.items() if options == chosen)
    estimate, found = card["training_memory"][words], measured()
    print(f"{card['name']}, {card['training_step']}, {words}")
    print(f"estimated {estimate}")
    print(
        f"estimated {estimate.total / MIB:,.0f} MiB, measured {found / MIB:,.0f} MiB, "
        f"ratio {estimate.total / found:.2f}"
    )


if __name__ == "__main__":
    app.run(main)
