"""Cards of the checkpoints that this project trained and that come with the package.

tools/nano_checkpoint.py makes their folders from runs of `bert_zoo pretrain --size nano` and `bert_zoo distill`, and
prints the hash, parameters and scores for each card.
"""

from collections.abc import Mapping
from typing import Any

from bert_zoo.family import Bundled, Checkpoint, TextSpec

SIZE = "nano"


def trained_here(
    name: str, config: Mapping[str, Any], paper: str, *, sha256: str, tag: str = "", **card
) -> Checkpoint:
    """A checkpoint with the heads that it was trained with. Fields of `card` replace the defaults here."""
    folder = f"{name}_{tag}" if tag else name
    return Checkpoint(
        name,
        config,
        tag=tag,
        sources=[Bundled(folder, {"model.safetensors": sha256})],
        licence="Apache-2.0",
        paper=f"{paper}; trained by this project, see checkpoints/{folder}/README.md",
        **{
            "note": (
                "For tests, examples and first tries without a network. It was trained on 9 MB of English, too "
                "little for real use."
            ),
            "provides": frozenset({"encoder", "masked_lm", "pretraining"}),
            "text": TextSpec(lowercase=True, max_length=128),
            **card,
        },
    )
