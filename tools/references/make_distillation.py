"""Makes tests/golden/distillation.npz: losses of distillation on text, by torch, as their authors compute them.

In an environment with torch:

    python tools/references/make_distillation.py --output_dir tests/golden

Arrays, of rows with `lengths` real tokens:

- `student/<what>` and `teacher/<what>`, float32: `logits` [rows, length, vocabulary], `states` [rows, length,
  hidden], `scores` [rows, heads, length, length] with what hides padding, and `queries`, `keys`, `values`
  [rows, length, width], whose widths differ;
- `<loss>/loss` and `<loss>/gradient`, with respect to the student's tensor, in float64: `soft_tokens` and `cosine` as
  DistilBERT's distiller.py has them, `scores` and `states` as TinyBERT's general_distill.py, with padding in their means;
- `attention/loss`, `value_relations/loss` and `relations/<vectors>` [rows], MiniLM's by the formulas of the papers, each row
  cut to its tokens. Those of version 1 read the vectors of the teacher and `alike/<what>`, of a student as wide.
"""

import argparse
import math
import pathlib

import numpy as np
import torch
from torch import nn

LENGTHS = (9, 6, 4)
ROWS, LENGTH, VOCABULARY, HIDDEN, HEADS = len(LENGTHS), max(LENGTHS), 13, 12, 4
WIDTHS = {"student": 8, "teacher": 16, "alike": 16}
RELATION_HEADS = 2
TEMPERATURE = 2.0


def tensors() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    mask = np.arange(LENGTH) < np.array(LENGTHS)[:, None]
    made = {}
    for role, width in WIDTHS.items():
        shapes = dict.fromkeys(("queries", "keys", "values"), (ROWS, LENGTH, width))
        if role != "alike":
            shapes |= {"logits": (ROWS, LENGTH, VOCABULARY), "states": (ROWS, LENGTH, HIDDEN)}
            shapes |= {"scores": (ROWS, HEADS, LENGTH, LENGTH)}
        for name, shape in shapes.items():
            made[f"{role}/{name}"] = 2 * rng.normal(size=shape)
        if role != "alike":
            made[f"{role}/scores"] += np.where(mask, 0.0, -10000.0)[:, None, None, :]
    return {name: value.astype(np.float32) for name, value in made.items()}


def real(x: torch.Tensor) -> torch.Tensor:
    """The rows of real tokens, [tokens, size]."""
    mask = (torch.arange(LENGTH) < torch.tensor(LENGTHS)[:, None]).unsqueeze(-1).expand_as(x)
    return torch.masked_select(x, mask).view(-1, x.size(-1))


def soft_tokens(student, teacher):
    student, teacher = real(student), real(teacher)
    divergence = nn.KLDivLoss(reduction="batchmean")(
        nn.functional.log_softmax(student / TEMPERATURE, dim=-1),
        nn.functional.softmax(teacher / TEMPERATURE, dim=-1),
    )
    return divergence * TEMPERATURE**2


def cosine(student, teacher):
    student, teacher = real(student), real(teacher)
    target = student.new_ones(student.size(0))
    return nn.CosineEmbeddingLoss(reduction="mean")(student, teacher, target)


def scores(student, teacher):
    student, teacher = (torch.where(x <= -1e2, torch.zeros_like(x), x) for x in (student, teacher))
    return nn.MSELoss()(student, teacher)


def states(student, teacher):
    return nn.MSELoss()(student, teacher)


def relation(vectors: np.ndarray, others: np.ndarray, row: int, heads: int) -> torch.Tensor:
    """Scores [heads, tokens, tokens] of a row."""

    def divided(x):
        x = torch.tensor(x[row, : LENGTHS[row]], dtype=torch.float64)
        return x.view(x.size(0), heads, -1).permute(1, 0, 2)

    first, second = divided(vectors), divided(others)
    return first @ second.transpose(-1, -2) / math.sqrt(first.size(-1))


def divergences(student, teacher) -> np.ndarray:
    """Of functions row -> scores: the mean over heads and tokens of each row."""
    found = []
    for row in range(ROWS):
        taught = torch.softmax(teacher(row), dim=-1)
        learned = torch.log_softmax(student(row), dim=-1)
        total = nn.KLDivLoss(reduction="sum")(learned, taught)
        found.append(float(total / (taught.size(0) * taught.size(1))))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    made = tensors()
    golden = dict(made, lengths=np.array(LENGTHS))
    losses = {"soft_tokens": soft_tokens, "cosine": cosine, "scores": scores, "states": states}
    read = {"soft_tokens": "logits", "cosine": "states", "scores": "scores", "states": "states"}
    for name, loss in losses.items():
        student, teacher = (
            torch.tensor(made[f"{role}/{read[name]}"], dtype=torch.float64)
            for role in ("student", "teacher")
        )
        student.requires_grad_()
        value = loss(student, teacher)
        value.backward()
        golden[f"{name}/loss"] = np.array(value.item())
        golden[f"{name}/gradient"] = student.grad.numpy().astype(np.float32)

    def between(first: str, second: str, student: str, heads: int) -> np.ndarray:
        return divergences(
            *(
                lambda row, role=role: relation(
                    made[f"{role}/{first}"], made[f"{role}/{second}"], row, heads
                )
                for role in (student, "teacher")
            )
        )

    golden["attention/loss"] = between("queries", "keys", "alike", HEADS)
    golden["value_relations/loss"] = between("values", "values", "alike", HEADS)
    for name in ("queries", "keys", "values"):
        golden[f"relations/{name}"] = between(name, name, "student", RELATION_HEADS)
    np.savez_compressed(parser.parse_args().output_dir / "distillation.npz", **golden)


if __name__ == "__main__":
    main()
