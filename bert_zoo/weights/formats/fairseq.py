"""fairseq's model.pt: tensors with the arguments of their training."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bert_zoo.config import ConfigError
from bert_zoo.json_files import JsonObject
from bert_zoo.weights.formats.format import Format

# Earlier versions stored the three attention projections in one tensor, one below the other.
FUSED = re.compile(r"\bself_attn\.in_proj_(?=weight$|bias$)")


@dataclass(frozen=True, kw_only=True)
class Fairseq(Format):
    """A family's fairseq files.

    The codec gets the arguments of the training, in which SpanBERT's program keeps the sizes in a separate record,
    and the numbers of rows of the tables, which the arguments do not tell.
    """

    name: ClassVar[str] = "fairseq"
    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        (r"^decoder\.(?=sentence_encoder\.|lm_head\.)", "encoder."),
        (r"\bemb_layer_norm\.", "layernorm_embedding."),
        # A classification head has its task's name.
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
                "Put Hugging Face's config.json of the model into its directory."
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
