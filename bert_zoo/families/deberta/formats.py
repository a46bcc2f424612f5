"""How DeBERTa's checkpoints are stored."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from bert_zoo.families.deberta.config import DebertaConfig, as_said
from bert_zoo.families.deberta.original import Original, with_hugging_faces_keys
from bert_zoo.families.deberta.rows import LM_HEAD, is_legacy
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec


def original(codec: ConfigCodec, **options: Any) -> Original:
    """The format of Microsoft's directories, made from Hugging Face's codec."""
    return Original(
        codec=replace(
            codec,
            rows=[row for row in codec.rows if row.field != "position_biased_input"],
            # Its mask decoder adds the positions that other models add in the embeddings.
            fixed={**codec.fixed, "position_biased_input": (False,)},
            prepare=lambda values: as_said(with_hugging_faces_keys(values)),
        ),
        **options,
    )


def decoder_of_masks(keys: Collection[str], config: DebertaConfig) -> dict[str, Any]:
    """Finds the kind of the masked-token head from the names of tensors.

    Microsoft's head and transformers' with `legacy: false` have the same names. Microsoft's has its own table of
    positions, which its configuration does not mention.
    """

    def has(name: str) -> bool:
        return any(f".{name}." in f".{key}" for key in keys)

    if has("cls.predictions"):
        return {"mask_decoder": "legacy"}
    if has(LM_HEAD) and (config.position_biased_input or not has("embeddings.position_embeddings")):
        return {"mask_decoder": "direct", "tie_word_embeddings": True}
    return {}


class Ported(HuggingFace):
    """Directories whose configuration does not name their masked-token head."""

    def told(self, source, config, unsaid) -> dict[str, Any]:
        return decoder_of_masks(source, config)

    def supports_in_head(self, task: str) -> Mapping[str, Any]:
        # Not "enhanced": transformers' class for it omits the decoder.
        decoder = lambda config: "legacy" if is_legacy(config) else "direct"  # noqa: E731
        return {"mask_decoder": decoder} if task == "masked_lm" else {}
