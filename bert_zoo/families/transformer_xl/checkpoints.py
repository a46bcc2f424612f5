"""Cards of the released Transformer-XL checkpoints.

All four come from the TensorFlow program; Hugging Face converted wt103 from it. `mem_len`, `clamp_len` and
`same_length` are set as in the program's evaluation (tf/sota/*.sh), which gave the paper's scores. Training
used a shorter memory and neither `clamp_len` nor `same_length`.
"""

from bert_zoo.family import HF, Checkpoint, Files, TextSpec

CMU = "https://curtis.ml.cmu.edu/datasets/pretrained_xl"
PAPER = "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context, arXiv:1901.02860"
WT103_CUTOFFS = (20000, 40000, 200000)
LM1B_CUTOFFS = (60000, 100000, 640000)
CHARACTERS = {
    "hidden_size": 1024,
    "num_layers": 24,
    "num_heads": 8,
    "head_size": 128,
    "intermediate_size": 3072,
    "hidden_dropout": 0.15,
    "attention_dropout": 0.15,
    "mem_len": 3800,
    "clamp_len": 1000,
}
WORDS = {"div_val": 4, "untie_r": True, "initializer_range": 0.005}


def cmu(name: str, step: int, config: dict, params: int, score: str, value: float, **card):
    """A checkpoint of kimiyoung/transformer-xl. All have the same licence and paper."""
    directory = {"enwik8": "tf_enwiki8"}.get(name, f"tf_{name}")
    checkpoint = f"model/model.ckpt-{step}"
    # cache.pkl holds the vocabulary and the whole encoded corpus.
    files = [f"{checkpoint}.data-00000-of-00001", f"{checkpoint}.index", "data/cache.pkl"]
    return Checkpoint(
        f"transformer_xl_{name}",
        {"same_length": True, **config},
        sources=[*card.pop("hubs", []), Files(f"{CMU}/{directory}", files)],
        provides=frozenset({"encoder", "causal_lm"}),
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        text=TextSpec(lowercase=None, max_length=2048),
        scores={score: value},
        **card,
    )


CHECKPOINTS = [
    cmu(
        "wt103",
        0,
        WORDS
        | {
            "vocab_size": 267735,
            "hidden_size": 1024,
            "num_layers": 18,
            "num_heads": 16,
            "head_size": 64,
            "intermediate_size": 4096,
            "cutoffs": WT103_CUTOFFS,
            "hidden_dropout": 0.2,
            "attention_dropout": 0.2,
            "mem_len": 1600,
            "clamp_len": 1000,
        },
        285_205_322,
        "WikiText-103 (test perplexity)",
        18.3,
        hubs=[HF("transfo-xl/transfo-xl-wt103")],
        note="The paper and Hugging Face give 257M parameters; the tensors have 285.2M.",
    ),
    cmu(
        "enwik8",
        0,
        CHARACTERS | {"vocab_size": 204},
        277_231_820,
        "enwik8 (test bits per character)",
        0.99,
    ),
    cmu(
        "text8",
        0,
        CHARACTERS | {"vocab_size": 27},
        277_050_395,
        "text8 (test bits per character)",
        1.08,
    ),
    cmu(
        "lm1b",
        1191000,
        WORDS
        | {
            "vocab_size": 793471,
            "hidden_size": 1280,
            "num_layers": 24,
            "num_heads": 16,
            "head_size": 80,
            "intermediate_size": 8192,
            "cutoffs": LM1B_CUTOFFS,
            "tie_projs": (False, False, False, False),
            "proj_same_dim": False,
            "hidden_dropout": 0.05,
            "attention_dropout": 0.05,
            "mem_len": 128,
        },
        838_078_062,
        "One Billion Word (test perplexity)",
        21.8,
    ),
]
