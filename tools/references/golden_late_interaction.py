"""Makes tests/golden/late_interaction: directories of late-interaction models, and sentence-transformers' vectors and scores.

    pip install sentence-transformers==6.2.0 tokenizers
    python tools/references/golden_late_interaction.py

A case holds what stands beside the tensors of tests/golden/bert/encoder: small files, `weights.npz` (the dense layer,
and rows that follow the token table) and `vectors.npz`. `stanford` and `pylate` have the files that ColBERT and PyLate
write, `fixed` and `least` are written by sentence-transformers.
"""

import json
import shutil
import string
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from sentence_transformers import MultiVectorEncoder
from tokenizers import AddedToken
from transformers import BertTokenizerFast

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
ENCODER, TARGET = GOLDEN / "bert" / "encoder", GOLDEN / "late_interaction"
SIZE, QUERY_LENGTH, DOCUMENT_LENGTH = 16, 12, 20
QUERIES = ["a cat", "The cat sat on the big tree, and she was in the old red house!", "?"]
DOCUMENTS = [
    "the cat sat on the tree.",
    "a bird!",
    "we ran to the big red house, and she saw the city: it was good, not very bad, in the night of that day.",
    "!, .",
]
SETTINGS = "config_sentence_transformers.json"


def write_json(path: Path, values) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(values, indent=2) + "\n")


def stanford(directory: Path, linear: np.ndarray) -> None:
    words = (ENCODER / "vocab.txt").read_text().split()
    words[-2:] = ["[unused0]", "[unused1]"]
    (directory / "vocab.txt").write_text("\n".join(words) + "\n")
    config = json.loads((ENCODER / "config.json").read_text())
    write_json(directory / "config.json", config | {"architectures": ["HF_ColBERT"]})
    metadata = {
        **{"query_token_id": "[unused0]", "doc_token_id": "[unused1]", "query_token": "[Q]"},
        **{"doc_token": "[D]", "ncells": None, "nbits": 2, "similarity": "cosine", "bsize": 32},
        **{"query_maxlen": QUERY_LENGTH, "attend_to_mask_tokens": False, "interaction": "colbert"},
        **{"dim": SIZE, "doc_maxlen": DOCUMENT_LENGTH, "mask_punctuation": True, "nway": 64},
    }
    write_json(directory / "artifact.metadata", metadata)
    tensors = {f"bert.{name}": t for name, t in load_file(ENCODER / "model.safetensors").items()}
    save_file(
        tensors | {"linear.weight": linear}, directory / "model.safetensors", {"format": "pt"}
    )


def pylate(directory: Path, linear: np.ndarray, rows: np.ndarray) -> None:
    tokenizer = BertTokenizerFast.from_pretrained(ENCODER)
    tokenizer.add_tokens([AddedToken("[Q] "), AddedToken("[D] ")])
    tokenizer.save_pretrained(directory)
    config = json.loads((ENCODER / "config.json").read_text())
    write_json(directory / "config.json", config | {"vocab_size": len(tokenizer)})
    types = ["sentence_transformers.models.Transformer", "pylate.models.Dense.Dense"]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": kind}
        for i, (kind, path) in enumerate(zip(types, ["", "1_Dense"], strict=True))
    ]
    write_json(directory / "modules.json", modules)
    settings = {
        **{"__version__": {"sentence_transformers": "4.0.2", "pytorch": "2.6.0"}, "prompts": {}},
        **{"default_prompt_name": None, "similarity_fn_name": "MaxSim", "query_prefix": "[Q] "},
        **{"document_prefix": "[D] ", "query_length": QUERY_LENGTH, "model_type": "ColBERT"},
        **{"document_length": DOCUMENT_LENGTH, "attend_to_expansion_tokens": True},
        **{"skiplist_words": ["!", ",", "the", "absent"], "do_query_expansion": True},
    }
    write_json(directory / SETTINGS, settings)
    dense = {"in_features": 32, "out_features": SIZE, "bias": False, "use_residual": False}
    dense["activation_function"] = "torch.nn.modules.linear.Identity"
    write_json(directory / "1_Dense" / "config.json", dense)
    save_file({"linear.weight": linear}, directory / "1_Dense" / "model.safetensors")
    tensors = dict(load_file(ENCODER / "model.safetensors"))
    name = "embeddings.word_embeddings.weight"
    tensors[name] = np.concatenate([tensors[name], rows])
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})


def native(directory: Path, linear: np.ndarray, **options) -> None:
    """What sentence-transformers saves of a model that was made from the encoder alone."""
    import torch

    made = MultiVectorEncoder(str(ENCODER), device="cpu")
    transformer, dense, mask, _ = made
    dense.linear, dense.out_features = torch.nn.Linear(32, SIZE, bias=False), SIZE
    with torch.no_grad():
        dense.linear.weight.copy_(torch.tensor(linear))
    mask.skiplist_words = options.pop("skiplist_words")
    made.prompts |= options.pop("prompts")
    for name, value in options.items():
        setattr(transformer, name, value)
    made.save(str(directory), create_model_card=False)


def step_of(model) -> dict[str, np.ndarray]:
    """Loss and gradients of a batch of pairs, without prompts and dropout."""
    import torch
    from sentence_transformers.multi_vector_encoder.scoring import colbert_scores

    def read(texts, task):
        found = model(model.preprocess(texts, task=task), task=task)
        return found["token_embeddings"], found["attention_mask"]

    model.eval()
    queries, in_query = read(QUERIES, "query")
    documents, in_document = read(DOCUMENTS[:3], "document")
    scores = colbert_scores(queries, documents[:, None], in_query, in_document[:, None])
    loss = torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))
    loss.backward()
    table = model[0].model.embeddings.word_embeddings.weight
    gradients = {"linear": model[1].linear.weight, "table": table}
    return {"loss": loss.item()} | {f"gradient_{n}": w.grad.numpy() for n, w in gradients.items()}


def write_case(name: str, directory: Path, **weights: np.ndarray) -> None:
    model = MultiVectorEncoder(str(directory), device="cpu")
    queries = model.encode_query(QUERIES, convert_to_numpy=True)
    documents = model.encode_document(DOCUMENTS, convert_to_numpy=True)
    vectors = {f"query_{i}": v for i, v in enumerate(queries)}
    vectors |= {f"document_{i}": v for i, v in enumerate(documents)}
    scores = model.similarity(queries, documents).numpy()
    target = TARGET / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(directory, target, ignore=shutil.ignore_patterns("*.safetensors"))
    np.savez_compressed(target / "weights.npz", **weights)
    if name == "fixed":
        vectors |= step_of(model)
    np.savez_compressed(target / "vectors.npz", scores=scores, **vectors)
    print(name, [v.shape for v in (*queries, *documents)], scores)


def main() -> None:
    random = np.random.default_rng(0)
    linear = random.normal(0, 0.2, (SIZE, 32)).astype(np.float32)
    rows = random.normal(0, 0.1, (2, 32)).astype(np.float32)
    with tempfile.TemporaryDirectory() as made:
        folders = {name: Path(made) / name for name in ("stanford", "pylate", "fixed", "least")}
        for folder in folders.values():
            folder.mkdir()
        stanford(folders["stanford"], linear)
        pylate(folders["pylate"], linear, rows)
        native(
            folders["fixed"],
            linear,
            query_expansion={"strategy": "fixed", "attend": False, "length": QUERY_LENGTH},
            document_length=DOCUMENT_LENGTH,
            skiplist_words=[*string.punctuation],
            prompts={"query": "the cat: ", "document": ""},
        )
        native(
            folders["least"],
            linear,
            query_expansion={
                **{"strategy": "min", "attend": True, "length": 10, "token": "tree"},
            },
            query_length=14,
            skiplist_words=[],
            prompts={"query": "", "document": ""},
        )
        for name, folder in folders.items():
            weights = {"linear": linear} | ({"rows": rows} if name == "pylate" else {})
            write_case(name, folder, **weights)


if __name__ == "__main__":
    main()
