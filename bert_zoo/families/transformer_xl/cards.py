"""Cards of the released Transformer-XL checkpoints.

All four come from the TensorFlow program; Hugging Face converted wt103 from it. `mem_len`, `clamp_len` and
`same_length` are set as in the program's evaluation (tf/sota/*.sh), which gave the paper's scores. Training
used a shorter memory and neither `clamp_len` nor `same_length`.
"""

from typing import Any

from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import HF, Checkpoint, Files, TextSpec, read_table
from bert_zoo.presets import LanguageModelPreset, Reading

CMU = "https://curtis.ml.cmu.edu/datasets/pretrained_xl"
PAPER = "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context, arXiv:1901.02860"
WT103_CUTOFFS = (20000, 40000, 200000)
LM1B_CUTOFFS = (60000, 100000, 640000)
WORDS = {"div_val": 4, "untie_r": True, "initializer_range": 0.005}
OF_VOCABULARY = {
    "wt103": WORDS | {"cutoffs": WT103_CUTOFFS},
    "lm1b": WORDS
    | {
        "cutoffs": LM1B_CUTOFFS,
        "tie_projs": (False, False, False, False),
        "proj_same_dim": False,
    },
}
RELEASED = read_table("""
    name    folder      repo                         step     params       vocab_size  hidden_size  num_layers  num_heads  head_size  intermediate_size  dropout  mem_len  clamp_len  score  benchmark
    wt103   tf_wt103    transfo-xl/transfo-xl-wt103  0        285_205_322  267735      1024         18          16         64         4096               0.2      1600     1000       18.3   WikiText-103 (test perplexity)
    enwik8  tf_enwiki8  -                            0        277_231_820  204         1024         24          8          128        3072               0.15     3800     1000       0.99   enwik8 (test bits per character)
    text8   tf_text8    -                            0        277_050_395  27          1024         24          8          128        3072               0.15     3800     1000       1.08   text8 (test bits per character)
    lm1b    tf_lm1b     -                            1191000  838_078_062  793471      1280         24          16         80         8192               0.05     128      -          21.8   One Billion Word (test perplexity)
""")
WT103_NOTE = "The paper and Hugging Face give 257M parameters; the tensors have 285.2M."


def cmu(
    name: str,
    folder: str,
    step: int,
    params: int,
    dropout: float,
    score: float,
    benchmark: str,
    repo: str = "",
    **config: int,
) -> Checkpoint:
    """A checkpoint of kimiyoung/transformer-xl. All have the same licence and paper."""
    checkpoint = f"model/model.ckpt-{step}"
    # cache.pkl holds the vocabulary and the whole encoded corpus.
    files = [f"{checkpoint}.data-00000-of-00001", f"{checkpoint}.index", "data/cache.pkl"]
    return Checkpoint(
        f"transformer_xl_{name}",
        {
            "same_length": True,
            "hidden_dropout": dropout,
            "attention_dropout": dropout,
            **config,
            **OF_VOCABULARY.get(name, {}),
        },
        sources=[
            *([HF(repo)] if repo else []),
            Files(f"{CMU}/{folder}", files),
        ],
        provides=frozenset({"encoder", "causal_lm"}),
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        text=TextSpec(lowercase=None, max_length=2048),
        scores={benchmark: score},
        note=WT103_NOTE if name == "wt103" else "",
    )


CHECKPOINTS = [cmu(**row) for row in RELEASED]

# Settings of the Transformer-XL paper's trainings, and of smaller ones.
#
# Source: kimiyoung/transformer-xl tf/scripts/*.sh (model, training and evaluation of each data set) and
# tf/train_gpu.py (defaults).

# Fields of a released model's card that describe its evaluation or its vocabulary.
NOT_OF_TRAINING = ("vocab_size", "mem_len", "clamp_len", "same_length")


def _released(name: str, mem_len: int) -> dict[str, Any]:
    """The configuration of a released checkpoint, with the memory used in training."""
    (card,) = (card for card in CHECKPOINTS if card.name == f"transformer_xl_{name}")
    config = {key: value for key, value in card.config.items() if key not in NOT_OF_TRAINING}
    return config | {"mem_len": mem_len}


def _sizes(num_layers: int, hidden_size: int, num_heads: int, intermediate_size: int, **more):
    return {
        "num_layers": num_layers,
        "hidden_size": hidden_size,
        "num_heads": num_heads,
        "head_size": hidden_size // num_heads,
        "intermediate_size": intermediate_size,
        **more,
    }


# The released models' configurations, with the memory used in training, and smaller ones.
CONFIGS = {
    "characters_nano": _sizes(4, 128, 4, 512, mem_len=64),
    "words_nano": _sizes(4, 128, 4, 512, cutoffs=(2_000, 4_000), div_val=2, mem_len=32),
    "words_mini": _sizes(6, 256, 4, 1024, cutoffs=(4_000, 8_000), div_val=2, mem_len=64),
    "words_small": _sizes(8, 320, 8, 1280, cutoffs=(8_000, 16_000), div_val=2, mem_len=128),
    "enwik8_base": _sizes(12, 512, 8, 2048, mem_len=512),
    "text8_base": _sizes(12, 512, 8, 2048, mem_len=512),
    "enwik8_large": _released("enwik8", mem_len=768),
    "text8_large": _released("enwik8", mem_len=768),
    "wt103_base": _sizes(16, 410, 10, 2100, cutoffs=WT103_CUTOFFS, untie_r=True, mem_len=150),
    "wt103_large": _released("wt103", mem_len=384),
    "lm1b_base": _sizes(
        18,
        1024,
        8,
        4096,
        cutoffs=LM1B_CUTOFFS,
        mem_len=256,
        div_val=4,
        untie_r=True,
        tie_projs=(False, False, False, False),
        proj_same_dim=False,
    ),
    "lm1b_large": _released("lm1b", mem_len=32),
}


def _preset(name: str, reading: str, read_rows: int = 10, **settings: Any) -> LanguageModelPreset:
    """A preset from a row; `reading` is tokens per row, memory and `clamp_len` in evaluation, `read_rows` its rows."""
    evaluation = Reading(*map(int, reading.split("/")), batch_size=read_rows)
    return LanguageModelPreset(
        name, "transformer_xl", CONFIGS[name], evaluation=evaluation, **settings
    )


# Those with a nano, mini or small size of words are our own, for a few to a few hundred megabytes of text, on a few
# cores or one GPU. tf/train.py (for TPUs) ends at a higher rate, the floor, than tf/train_gpu.py.
PRESETS = tuple(
    _preset(**row)
    for row in read_table("""
        name             unit       space_token  size   vocab_size  batch_size  segment_length  total_steps  learning_rate  warmup_steps  floor  read_rows  reading
        characters_nano  character  -            -      -           16          64              2_000        2e-3           100           -      -          64/256
        words_nano       word       -            nano   8_000       32          32              20_000       1e-3           400           -      -          32/64
        words_mini       word       -            mini   16_000      32          64              50_000       5e-4           1_000         -      -          64/128
        words_small      word       -            small  32_000      32          128             100_000      3e-4           2_000         -      -          128/256
        enwik8_base      byte       -            -      -           24          512             400_000      -              -             -      -          80/2100/820
        text8_base       character  _            -      -           24          512             400_000      -              -             -      -          80/2100/820
        enwik8_large     byte       -            -      -           64          768             400_000      -              4_000         -      16         128/3800/1000
        text8_large      character  _            -      -           64          768             400_000      -              4_000         -      16         128/3800/1000
        wt103_base       word       -            base   -           60          150             400_000      -              -             -      -          64/640/400
        wt103_large      word       -            large  -           128         384             4_000_000    -              16_000        0.01   8          128/1600/1000
        lm1b_base        word       -            -      -           256         256             400_000      -              -             -      16         32/128
        lm1b_large       word       -            -      -           512         32              1_200_000    1e-4           30_000        0.01   8          32/128
    """)
)

(PRESET,) = (preset for preset in PRESETS if preset.size == SIZE)
NANO = trained_here(
    "transformer_xl_nano",
    {**PRESET.config, "vocab_size": 8001},
    PAPER,
    sha256="df5f9c7200dc6f7f3ba270d57018377d6919fcfa305eff04cb07219d97683075",
    params=1_422_179,
    scores={
        "held-out loss": 4.712,
        "held-out loss before training": 8.428,
        "held-out loss of a unigram model": 6.026,
    },
    provides=frozenset({"encoder", "causal_lm"}),
    text=TextSpec(lowercase=False, max_length=2048),
)
