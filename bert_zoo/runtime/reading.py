"""Turns texts into rows of ids with an export's tokenizer."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bert_zoo.config import ConfigError
from bert_zoo.error_text import shortened
from bert_zoo.json_files import JsonObject
from bert_zoo.runtime.description import layout_of, split_tokens_of
from bert_zoo.runtime.files import DESCRIPTION_FILE, TOKENIZER_FILE
from bert_zoo.text.numpy_packing import Arrays, NumpyPacker, Slices
from bert_zoo.text.reading import Reader

log = logging.getLogger("bert_zoo")


class Rows:
    """Turns texts into rows of ids.

    Args:
        directory: the export's directory.
        text: the section `text` of its checked description.

    Attributes:
        reader: splits texts into tokens.
        packer: composes rows.
    """

    def __init__(self, directory: Path, text: JsonObject):
        self._path = directory / TOKENIZER_FILE
        tokenizer = _read_tokenizer(self._path)
        self.reader = Reader(
            tokenizer,
            unk_id=text["ids"]["unk"],
            split_tokens=split_tokens_of(text),
            blank_before_words=bool(text.get("blank_before_words")),
            source=str(self._path),
        )
        self.packer = NumpyPacker(
            layout=layout_of(text),
            sequence_length=text["sequence_length"],
            truncation=text["truncation"],
            bucket=text["bucket"],
            **{f"{role}_id": index for role, index in text["ids"].items()},
        )
        # Exports of bert_zoo 0.1.0 lack it.
        self._vocabulary_size = text.get("vocabulary_size")
        self._has_warned = False
        if text.get("blank_before_words") and not hasattr(
            tokenizer.pre_tokenizer, "add_prefix_space"
        ):
            raise ConfigError(
                f"{self._path}: blank_before_words is set in {DESCRIPTION_FILE}, but the pre-tokenizer puts "
                "no space before words. Export the model again."
            )

    def cut(self, *texts: Sequence[str]) -> list[Slices]:
        """Tokenizes texts or pairs, and cuts those that are too long."""
        tokens = [self.reader.tokenized(each) for each in texts]
        kept = self.packer.kept_lengths([each.lengths for each in tokens])
        lengths, limit = sum(each.lengths for each in tokens), self.packer.sequence_length
        if not self._has_warned and (sum(kept) < lengths).any():
            self._has_warned = True
            log.warning(
                "A text of %d tokens was cut to %d, the limit without special tokens. (Shown once.)",
                lengths.max(),
                limit - self.packer.layout.specials(len(texts)),
            )
        return [each.beginnings(number) for each, number in zip(tokens, kept, strict=True)]

    def packed(self, segments: Sequence[Slices]) -> Arrays:
        """Packs segments into int32 [rows, length]: `token_ids`, `segment_ids` and `padding_mask`."""
        inputs, _ = self.packer.lay_out(segments)
        highest = int(inputs["token_ids"].max())
        if self._vocabulary_size is not None and highest >= self._vocabulary_size:
            raise ValueError(
                f"{self._path} produced the id {highest}, but the model has {self._vocabulary_size} tokens: "
                "the file belongs to another export. Export the model again."
            )
        # Models with a single segment still take its ids.
        return {"segment_ids": np.zeros_like(inputs["token_ids"]), **inputs}

    def inside(self, length: int, width: int) -> slice:
        """Returns where the tokens of a row of this length are in a batch of this width."""
        start = width - length if self.packer.layout.padding_side == "left" else 0
        return slice(start, start + length)

    def specials_before(self, number: int, texts: int) -> int:
        """Returns the number of special tokens before a row's text with this number."""
        parts = self.packer.layout.parts(texts)
        at = [place for place, part in enumerate(parts) if part.is_text]
        return at[number] - number


def _read_tokenizer(path: Path):
    """Reads a tokenizer, with truncation and padding switched off.

    Raises:
        FileNotFoundError: the file is missing.
        ConfigError: the library cannot read it.
    """
    from tokenizers import Tokenizer

    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing. Copy all files that bert_zoo.export wrote.")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ConfigError(
            f"Hugging Face's tokenizers cannot read {path}: {shortened(str(error))}. Export the model again."
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
