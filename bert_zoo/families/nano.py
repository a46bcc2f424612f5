"""The checkpoints that this project trained itself and that come with it: what they have in common.

tools/nano_checkpoint.py makes their folders, of runs of `bert_zoo pretrain --size nano` and `bert_zoo distill`, and
prints what each has of its own: hash, parameters and scores.
"""

from collections.abc import Mapping
from typing import Any

from bert_zoo.family import Bundled, Checkpoint, TextSpec

SIZE = "nano"


def trained_here(
    name: str, config: Mapping[str, Any], paper: str, *, sha256: str, tag: str = "", **card
) -> Checkpoint:
    """A checkpoint with the heads that it was trained with: same licence and limits for all."""
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
                "For tests, examples and first tries without a network: it is small and has read some "
                "megabytes of English. Not for results."
            ),
            "provides": frozenset({"encoder", "masked_lm", "pretraining"}),
            "text": TextSpec(lowercase=True, max_length=128),
            **card,
        },
    )
