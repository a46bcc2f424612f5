"""A sparse autoencoder that sentence-transformers writes, and its loss: `tests/golden/sparse_encoder/csr`.

    reference-env/bin/python tools/references/make_autoencoders.py

Needs sentence-transformers 6.2.0. The directory has the files that it writes beside `tests/golden/bert/encoder`, without
those of the model and its vocabulary; `vectors.npz`: dense vectors of texts by role, "" without one; `losses.npz`:
CSRLoss of dense vectors [rows, columns, size] by whether they are normalised, with its gradients and counters.
"""

import shutil
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SparseEncoder
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from sentence_transformers.sparse_encoder import losses
from sentence_transformers.sparse_encoder.modules import SparseAutoEncoder

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
MODEL, WRITTEN = GOLDEN / "bert" / "encoder", GOLDEN / "sparse_encoder" / "csr"
TEXTS = ["the cat sat on the tree", "a bird", "we ran to the big red house, and she saw the city"]
OF_MODEL = ("config.json", "model.safetensors")
NOT_KEPT = ("README.md", "tokenizer.json", "tokenizer_config.json")
ROWS, COLUMNS, UNITS = 4, 3, 48


def write_model() -> SparseAutoEncoder:
    torch.manual_seed(0)
    transformer = Transformer(str(MODEL))
    size = transformer.get_embedding_dimension()
    autoencoder = SparseAutoEncoder(size, UNITS, k=5, k_aux=7, normalize=True, dead_threshold=4)
    with torch.no_grad():
        autoencoder.pre_bias.normal_(std=0.1)
        autoencoder.latent_bias.normal_(std=0.1)
        autoencoder.stats_last_nonzero.random_(0, 6)
    modules = [transformer, Pooling(size, "mean"), Normalize(), autoencoder]
    model = SparseEncoder(modules=modules, device="cpu", prompts={"query": "a "})
    shutil.rmtree(WRITTEN, ignore_errors=True)
    model.save(str(WRITTEN))
    for path in [*WRITTEN.rglob("*")]:
        if path.name in NOT_KEPT or (path.parent == WRITTEN and path.name in OF_MODEL):
            path.unlink()
    encode = {"": model.encode, "query": model.encode_query, "document": model.encode_document}
    found = {role: call(TEXTS).to_dense().numpy() for role, call in encode.items()}
    np.savez_compressed(WRITTEN / "vectors.npz", **found)
    return autoencoder.train()


def write_losses(autoencoder: SparseAutoEncoder) -> None:
    random, counters = np.random.default_rng(0), autoencoder.stats_last_nonzero.clone()
    found = {
        "vectors": random.normal(size=(ROWS, COLUMNS, autoencoder.input_dim)).astype("float32")
    }
    for is_normalized in (False, True):
        autoencoder.normalize = is_normalized
        autoencoder.stats_last_nonzero.copy_(counters)
        autoencoder.zero_grad()
        given = torch.tensor(found["vectors"], requires_grad=True)
        outputs = [autoencoder({"sentence_embedding": column}) for column in given.unbind(1)]
        parts = losses.CSRReconstructionLoss(None, 0.3).compute_loss_from_embeddings(outputs)
        ranking = losses.SparseMultipleNegativesRankingLoss(None)
        latents = [output["sentence_embedding"] for output in outputs]
        total = sum(parts.values()) + 0.7 * ranking.compute_loss_from_embeddings(latents, None)
        total.backward()
        own = dict(autoencoder.named_parameters())
        gradients = {"vectors": given.grad, "kernel": own["encoder.weight"].grad.T}
        gradients |= {name: own[name].grad for name in ("pre_bias", "latent_bias")}
        values = {"loss": total.detach(), "unused": autoencoder.stats_last_nonzero} | gradients
        found |= {f"{is_normalized}_{name}": value.numpy().copy() for name, value in values.items()}
    np.savez_compressed(WRITTEN / "losses.npz", **found)


if __name__ == "__main__":
    write_losses(write_model())
