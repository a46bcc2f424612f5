"""Cards of the released MPNet checkpoints."""

from bert_zoo.family import HF, Archive, Checkpoint, Pooling, TextSpec

PAPER = "MPNet: Masked and Permuted Pre-training for Language Understanding, arXiv:2004.09297"
ARCHIVE = "https://modelrelease.blob.core.windows.net/pre-training/MPNet/mpnet.base.tar.gz"

CHECKPOINTS = [
    Checkpoint(
        "mpnet_base",
        # The original has no pooler, and Hugging Face's file was made from it.
        {"pooler": False},
        sources=[HF("microsoft/mpnet-base"), Archive(ARCHIVE)],
        provides=frozenset({"encoder", "masked_lm"}),
        params=108_895_872,
        licence="MIT",
        paper=PAPER,
        text=TextSpec(lowercase=True),
        scores={"SQuAD 1.1 (dev F1)": 92.7, "SQuAD 2.0 (dev F1)": 85.7},
    ),
    Checkpoint(
        "all_mpnet_base_v2",
        {},
        sources=[HF("sentence-transformers/all-mpnet-base-v2")],
        provides=frozenset({"encoder", "embedding"}),
        params=109_486_464,
        licence="Apache-2.0",
        paper="Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks, arXiv:1908.10084",
        text=TextSpec(lowercase=True, max_length=384),
        pooling=Pooling("mean", normalize=True),
        aliases=("all-mpnet-base-v2",),
        note="A sentence encoder for English: mean-pooled, L2-normalised.",
    ),
]
