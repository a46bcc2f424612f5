"""Sparse encoders that sentence-transformers writes, and their vectors: `tests/golden/sparse_encoder`.

    reference-env/bin/python tools/references/make_sparse_encoders.py

Needs sentence-transformers 6.2.0. A case has the files that it writes beside `tests/golden/bert/masked_lm`, without
those of the model and its vocabulary, and `vectors.npz`: dense vectors of texts by role, "" without one; `losses.npz`
has SpladeLoss around other losses, with its gradients for vectors.
"""

import shutil
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SparseEncoder
from sentence_transformers.base.modules import Router, Transformer
from sentence_transformers.sparse_encoder import losses
from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
MODEL, WRITTEN = GOLDEN / "bert" / "masked_lm", GOLDEN / "sparse_encoder"
TEXTS = ["the cat sat on the tree", "a bird", "we ran to the big red house, and she saw the city"]
OF_MODEL = ("config.json", "model.safetensors")
NOT_KEPT = ("README.md", "tokenizer.json", "tokenizer_config.json")
ROWS, COLUMNS, VOCABULARY = 4, 3, 24


def transformer() -> Transformer:
    return Transformer(str(MODEL), transformer_task="fill-mask")


def models():
    yield "max", [transformer(), SpladePooling("max")], {"prompts": {"query": "a ", "document": ""}}
    prompts = {"query": "a bird ", "passage": "the "}
    yield (
        "sum",
        [transformer(), SpladePooling("sum")],
        {"prompts": prompts, "default_prompt_name": "passage"},
    )
    yield "log1p", [transformer(), SpladePooling("max", "log1p_relu")], {"max_active_dims": 5}
    tokenizer = transformer().tokenizer
    weights = torch.linspace(-0.5, 3, len(tokenizer)).clamp(min=0)
    table = SparseStaticEmbedding(tokenizer, weights, frozen=True)
    route = Router.for_query_document([table], [transformer(), SpladePooling("max")])
    yield "router", [route], {"similarity_fn_name": "dot"}


def write_models() -> None:
    for name, modules, options in models():
        model, directory = SparseEncoder(modules=modules, device="cpu", **options), WRITTEN / name
        shutil.rmtree(directory, ignore_errors=True)
        model.save(str(directory))
        of_model = directory / "document_0_Transformer" if name == "router" else directory
        for path in [*directory.rglob("*")]:
            if path.name in NOT_KEPT or (path.parent == of_model and path.name in OF_MODEL):
                path.unlink()
        encode = {"": model.encode, "query": model.encode_query, "document": model.encode_document}
        found = {role: call(TEXTS).to_dense().numpy() for role, call in encode.items()}
        np.savez_compressed(directory / "vectors.npz", **found)


def write_losses() -> None:
    """SpladeLoss of vectors [rows, columns, vocabulary], by options: the loss and its gradient."""
    random = np.random.default_rng(0)
    vectors = np.maximum(random.normal(size=(ROWS, COLUMNS, VOCABULARY)), 0).astype("float32")
    vectors[1, 0, 5:] = vectors[2, 1, 3:] = 0  # below the thresholds
    labels = random.normal(size=(ROWS, COLUMNS - 1)).astype("float32")
    ranking, margins = (
        losses.SparseMultipleNegativesRankingLoss(None),
        losses.SparseMarginMSELoss(None),
    )
    cases = {
        "both": (ranking, {"query_regularizer_weight": 0.2}),
        "documents": (ranking, {}),
        "document_only": (ranking, {"use_document_regularizer_only": True}),
        "threshold": (
            margins,
            {
                "query_regularizer_weight": 0.2,
                "document_regularizer_threshold": 4,
                "query_regularizer_threshold": 4,
            },
        ),
    }
    found = {"vectors": vectors, "labels": labels}
    for name, (inner, options) in cases.items():
        loss = losses.SpladeLoss(None, inner, 0.3, **options)
        given = torch.tensor(vectors, requires_grad=True)
        columns, parts = [*given.unbind(1)], {}
        parts["inner"] = inner.compute_loss_from_embeddings(columns, torch.tensor(labels))
        documents = columns if loss.use_document_regularizer_only else columns[1:]
        of = loss.document_regularizer.compute_loss_from_embeddings
        parts["documents"] = loss.document_regularizer_weight * of(torch.cat(documents))
        if loss.query_regularizer_weight is not None:
            of = loss.query_regularizer.compute_loss_from_embeddings
            parts["queries"] = loss.query_regularizer_weight * of(columns[0])
        total = sum(parts.values())
        total.backward()
        found |= {f"{name}_loss": total.detach().numpy(), f"{name}_gradient": given.grad.numpy()}
    np.savez_compressed(WRITTEN / "losses.npz", **found)


if __name__ == "__main__":
    write_models()
    write_losses()
