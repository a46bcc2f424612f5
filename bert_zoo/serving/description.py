"""Describes to LiteRT and ONNX exports how texts are read, and writes their tokenizer."""

import logging
from pathlib import Path
from typing import Any

from bert_zoo.models.base import ZooModel
from bert_zoo.runtime.files import TOKENIZER_FILE
from bert_zoo.text.serialized import with_rows
from bert_zoo.weights.files import write_json

log = logging.getLogger("bert_zoo")


def text_description(model: ZooModel, directory: Path, *, text: bool) -> dict[str, Any]:
    """Writes `tokenizer.json`, and returns the key `text` of the description.

    If texts cannot be read, `text` is None and `text_missing` gives the reason.
    """
    if not text:
        return {"text": None, "text_missing": ["it was exported with text=False."]}
    preprocessor = model.preprocessor
    content = with_rows(preprocessor)
    if content is None:
        reason = (
            f"Hugging Face's tokenizers library has no equivalent of {type(preprocessor.tokenizer).__name__}, "
            "so ids must be made elsewhere."
        )
        log.warning("The export takes only ids: %s", reason)
        return {"text": None, "text_missing": [reason]}
    differences = [*preprocessor.tokenizer.rust_differences]
    if split_tokens := preprocessor.tokenizer.split_tokens:
        differences.append(
            "Pieces of a digit and a comma are not split; bert_zoo.runtime splits them by split_tokens."
        )
    if differences:
        log.warning(
            "Some ids of %s differ from the model's: %s", TOKENIZER_FILE, " ".join(differences)
        )
    write_json(directory / TOKENIZER_FILE, content)
    tokenizer, packer = preprocessor.tokenizer, preprocessor.packer
    roles = {"pad": packer.pad_id, "unk": tokenizer.unk_id}
    roles |= {role: getattr(tokenizer, f"{role}_id") for role in packer.layout.roles}
    options = tokenizer.get_config()
    described = {
        "layout": packer.layout.get_config(),
        "sequence_length": packer.sequence_length,
        "truncation": packer.truncation,
        "bucket": packer.bucket,
        "ids": {role: int(index) for role, index in roles.items()},
        # Words that are tokenized separately, for tagging, have a space before them; see `text.words`.
        "blank_before_words": not options.get("add_prefix_space", True),
        "split_tokens": split_tokens,
        "vocabulary_size": model.id_limits()["token_ids"][0],
        "differences": differences,
    }
    return {"text": described}
