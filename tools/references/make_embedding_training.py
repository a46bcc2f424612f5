"""Makes tests/golden/embedding_training.npz: losses of sentence-transformers, and a first step of MiniLM.

In an environment with torch and sentence-transformers:

    python tools/references/make_embedding_training.py --model_dir all-MiniLM-L6-v2 --output_dir tests/golden

Arrays:

- `vectors` float32 [8, 4, 12], `scores` and `classes` [8], `classifier` [3, 36], which the losses read;
- `<loss>/loss` and `<loss>/gradient`, with respect to the vectors that it reads, in float64;
- `anchors` and `positives`, and of a step of SGD on them, with the learning rate 1 and without dropout, by
  MultipleNegativesRankingLoss: `step/loss`, and `step/<parameter>`, by how much some weights change.
"""

import argparse
import pathlib

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses

ROWS, COLUMNS, SIZE = 8, 4, 12
CLASSES = 3
DIMS = [12, 8, 3]
PAIRS = [
    ("a man rides a horse along the beach", "someone is riding on the shore"),
    ("a man leads a horse along the beach", "He walks by the sea, and the animal follows him."),
    ("a woman rides a horse", "The rider sits on a brown horse, in a field behind a farm."),
    ("the horse is on the beach", "a horse stands in shallow water"),
    ("how do i reset my password?", "Choose 'forgotten password' on the page where you sign in."),
    ("how do i change my password?", "Under 'account', type the old password and then a new one."),
    ("i cannot sign in", "Your password may be wrong, or the account is closed."),
    ("horses", "sign in"),
]
STORED = (
    "embeddings.LayerNorm.weight",
    "encoder.layer.0.attention.self.query.bias",
    "encoder.layer.2.attention.self.value.weight",
    "encoder.layer.5.output.dense.bias",
)
ROWS_STORED = 4  # of weights with two axes


class Given(torch.nn.Module):
    """A model whose sentence vectors are its input."""

    device = "cpu"

    def forward(self, features):
        return {**features, "sentence_embedding": features["vectors"]}

    def get_embedding_dimension(self):
        return SIZE


def of_losses() -> dict[str, np.ndarray]:
    """Values and gradients of every loss."""
    rng = np.random.default_rng(0)
    alike = rng.normal(size=(ROWS, 1, SIZE))
    vectors = (alike + rng.normal(size=(ROWS, COLUMNS, SIZE))).astype("float32")
    scores = rng.choice([0.0, 0.25, 0.5, 1.0], ROWS).astype("float32")
    classes = rng.integers(0, CLASSES, ROWS)
    classifier = rng.normal(size=(CLASSES, 3 * SIZE)).astype("float32")
    model = Given()
    ranking = losses.MultipleNegativesRankingLoss
    softmax = losses.SoftmaxLoss(model, SIZE, CLASSES)
    softmax.classifier.weight.data = torch.tensor(classifier)
    softmax.classifier.bias.data[:] = 0
    both = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
    of_scores, of_classes = torch.tensor(scores), torch.tensor(classes)
    cases = {
        "ranking": (ranking(model), 2, None),
        "ranking_scale_5": (ranking(model, scale=5.0), 2, None),
        "symmetric": (ranking(model, **both), 2, None),
        "negatives": (ranking(model), COLUMNS, None),
        "symmetric_negatives": (ranking(model, **both), COLUMNS, None),
        "cosent": (losses.CoSENTLoss(model), 2, of_scores),
        "cosine": (losses.CosineSimilarityLoss(model), 2, of_scores),
        "triplet": (losses.BatchHardTripletLoss(model), 1, of_classes),
        "triplet_margin_1": (losses.BatchHardTripletLoss(model, margin=1.0), 1, of_classes),
        "softmax": (softmax, 2, of_classes),
        "matryoshka": (losses.MatryoshkaLoss(model, ranking(model), DIMS), COLUMNS, None),
        "matryoshka_weights": (
            losses.MatryoshkaLoss(model, losses.CoSENTLoss(model), DIMS, [1.0, 0.5, 2.0]),
            2,
            of_scores,
        ),
    }
    arrays = {"vectors": vectors, "scores": scores, "classes": classes, "classifier": classifier}
    for name, (loss, columns, labels) in cases.items():
        read = torch.tensor(vectors[:, :columns], dtype=torch.float64, requires_grad=True)
        labels = labels.double() if name in ("cosent", "cosine", "matryoshka_weights") else labels
        value = loss.double()([{"vectors": read[:, i]} for i in range(columns)], labels)
        value.backward()
        arrays[f"{name}/loss"] = value.detach().numpy()
        arrays[f"{name}/gradient"] = read.grad.numpy()
    return arrays


def of_a_step(model_dir: str, optimizer=torch.optim.SGD, **options) -> dict[str, np.ndarray]:
    """The loss of a first step, and by how much it changes every weight."""
    model = SentenceTransformer(model_dir, device="cpu")
    loss = losses.MultipleNegativesRankingLoss(model)
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    parameters = dict(model[0].auto_model.named_parameters())
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    value = loss([model.preprocess(list(column)) for column in zip(*PAIRS, strict=True)], None)
    value.backward()
    optimizer([p for p in parameters.values() if p.grad is not None], **options).step()
    changes = {name: (p.detach() - before[name]).numpy() for name, p in parameters.items()}
    return {"loss": value.detach().numpy(), **changes}


def main(model_dir: str, output_dir: pathlib.Path) -> None:
    step = of_a_step(model_dir, lr=1.0)
    anchors, positives = zip(*PAIRS, strict=True)
    kept = {name: v if v.ndim < 2 else v[:ROWS_STORED] for name, v in step.items()}
    np.savez_compressed(
        output_dir / "embedding_training.npz",
        **of_losses(),
        anchors=np.array(anchors),
        positives=np.array(positives),
        **{f"step/{name}": kept[name] for name in ("loss", *STORED)},
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model_dir", required=True, help="all-MiniLM-L6-v2")
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    torch.set_num_threads(1)
    main(**vars(parser.parse_args()))
