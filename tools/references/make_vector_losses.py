"""Writes losses of sentence-transformers over sparse, token and sentence vectors, with their gradients.

Needs sentence-transformers 6.2.0 and torch.

python tools/references/make_vector_losses.py tests/golden/vector_losses.npz
"""

import sys

import numpy as np
import torch
from sentence_transformers.multi_vector_encoder import losses as of_tokens
from sentence_transformers.sentence_transformer import losses as dense
from sentence_transformers.sparse_encoder import losses as sparse
from sentence_transformers.util import dot_score

ROWS, COLUMNS, TOKENS, SIZE, VOCABULARY = 4, 4, 6, 5, 24


class Stored(torch.nn.Module):
    """Stands for a multi-vector model: its features are its outputs."""

    def forward(self, features, task=None):
        return features


def of_columns(loss, vectors, labels):
    return loss.compute_loss_from_embeddings([*vectors.unbind(1)], labels)


def of_token_columns(loss, vectors, labels):
    columns = [
        {"token_embeddings": column[..., :-1], "attention_mask": column[..., -1].detach()}
        for column in vectors.unbind(1)
    ]
    return loss(columns, labels)


def main() -> None:
    random = np.random.default_rng(0)

    def normal(*shape):
        return random.normal(size=shape).astype("float32")

    tokens = normal(ROWS, COLUMNS, TOKENS, SIZE)
    tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)
    lengths = random.integers(2, TOKENS + 1, (ROWS, COLUMNS, 1))
    mask = (np.arange(TOKENS) < lengths).astype("float32")
    mask[0, 1, 1] = mask[1, 0, 0] = 0  # as words that are skipped
    stored = {
        "dense": normal(ROWS, COLUMNS, SIZE),
        "sparse": np.maximum(normal(ROWS, COLUMNS, VOCABULARY), 0),
        "tokens": np.concatenate([tokens, mask[..., None]], axis=-1),
        "scores": 2 * normal(ROWS, COLUMNS - 1),
    }
    scores, model = torch.tensor(stored["scores"]), Stored()
    margins = scores[:, :1] - scores[:, 1:]
    ranking = {
        "dense": dense.MultipleNegativesRankingLoss(None, scale=1, similarity_fct=dot_score),
        "sparse": sparse.SparseMultipleNegativesRankingLoss(None),
        "tokens": of_tokens.MultiVectorMultipleNegativesRankingLoss(model),
    }
    margin = {
        "dense": dense.MarginMSELoss(None),
        "sparse": sparse.SparseMarginMSELoss(None),
        "tokens": of_tokens.MultiVectorMarginMSELoss(model),
    }
    divergence = {
        "dense": (dense.DistillKLDivLoss, None),
        "sparse": (sparse.SparseDistillKLDivLoss, None),
        "tokens": (of_tokens.MultiVectorDistillKLDivLoss, model),
    }
    for kind in ranking:
        kl, first = divergence[kind]
        cases = {
            "ranking": (ranking[kind], 2, None),
            "ranking_negatives": (ranking[kind], COLUMNS, None),
            "margins": (margin[kind], COLUMNS, margins),
            "margins_of_scores": (margin[kind], COLUMNS, scores),
            "divergence": (kl(first, temperature=1.0), COLUMNS, scores),
            "divergence_at_2": (kl(first, temperature=2.0), COLUMNS, scores),
        }
        compute = of_token_columns if kind == "tokens" else of_columns
        for name, (loss, columns, labels) in cases.items():
            vectors = torch.tensor(stored[kind][:, :columns], requires_grad=True)
            value = compute(loss, vectors, labels)
            value.backward()
            stored[f"{kind}/{name}"] = value.detach().numpy()
            stored[f"{kind}/{name}/gradient"] = vectors.grad.numpy()
    np.savez_compressed(sys.argv[1], **stored)


main()
