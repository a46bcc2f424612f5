"""The card of the Transformer-XL that this project trained."""

from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.families.transformer_xl.checkpoints import PAPER
from bert_zoo.families.transformer_xl.presets import PRESETS
from bert_zoo.family import TextSpec

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
