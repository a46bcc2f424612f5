"""fairseq's model.pt: tensors beside the arguments of the program that trained them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bert_zoo.config import ConfigError
from bert_zoo.json_files import JsonObject
from bert_zoo.weights.formats.format import Format

# The attention once kept its three products in one tensor, below each other.
FUSED = re.compile(r"\bself_attn\.in_proj_(?=weight$|bias$)")


@dataclass(frozen=True, kw_only=True)
class Fairseq(Format):
    """A family's fairseq files.

    The codec is given the arguments of the training, in which SpanBERT's program keeps the sizes in
    a record of their own, and the rows of the tables, which they do not tell.
    """

    name: ClassVar[str] = "fairseq"
    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        (r"^decoder\.(?=sentence_encoder\.|lm_head\.)", "encoder."),
        (r"\bemb_layer_norm\.", "layernorm_embedding."),
        # A classification head is called after its task.
        (r"\bclassification_heads\.[^.]+\.", "classification_heads."),
    )
    never_weights: ClassVar[tuple[str, ...]] = (r"\.version$", r"\._float_tensor$")

    config_file: str = "model.pt"

    def parts(self, key: str) -> Sequence[str]:
        key = self.renamed(key)
        if not FUSED.search(key):
            return (key,)
        return [FUSED.sub(f"self_attn.{part}_proj.", key) for part in "qkv"]

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        from bert_zoo.weights.torch_bin import TorchSource

        source = TorchSource(path)
        if not source.arguments:
            raise ConfigError(
                f"{path} holds tensors without the arguments of their training, so sizes are unknown. "
                "Put Hugging Face's config.json of the model beside it."
            )
        rows = {
            f"{table}_rows": source.shape(key)[0]
            for key in source
            for table in ("embed_tokens", "embed_positions")
            if key.endswith(f"{table}.weight")
        }
        record = source.arguments.get("config")
        record = record if isinstance(record, dict) else {}
        return JsonObject({**source.arguments, **record, **rows}, path)
