"""From texts to rows of ids: the tokenizer of an export, and what composes rows."""

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
    """What makes rows of an export's texts.

    Args:
        directory: of the export.
        text: what its description, which is checked, says of texts.

    Attributes:
        reader: makes tokens of texts.
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
        # Exports of bert_zoo 0.1.0 do not say it.
        self._vocabulary_size = text.get("vocabulary_size")
        self._has_warned = False
        if text.get("blank_before_words") and not hasattr(
            tokenizer.pre_tokenizer, "add_prefix_space"
        ):
            raise ConfigError(
                f"{self._path}: its pre-tokenizer puts no blank before words, which {DESCRIPTION_FILE} "
                "asks for by blank_before_words. Export the model again."
            )

    def cut(self, *texts: Sequence[str]) -> list[Slices]:
        """The segments of rows of texts, or of pairs, cut where they are too long."""
        tokens = [self.reader.tokenized(each) for each in texts]
        kept = self.packer.kept_lengths([each.lengths for each in tokens])
        lengths, limit = sum(each.lengths for each in tokens), self.packer.sequence_length
        if not self._has_warned and (sum(kept) < lengths).any():
            self._has_warned = True
            log.warning(
                "A text of %d tokens is cut to the %d that a row has beside special ones. This is "
                "said once.",
                lengths.max(),
                limit - self.packer.layout.specials(len(texts)),
            )
        return [each.beginnings(number) for each, number in zip(tokens, kept, strict=True)]

    def packed(self, segments: Sequence[Slices]) -> Arrays:
        """Segments that fit into rows as int32 [rows, length]: `token_ids`, `segment_ids`, `padding_mask`."""
        inputs, _ = self.packer.lay_out(segments)
        highest = int(inputs["token_ids"].max())
        if self._vocabulary_size is not None and highest >= self._vocabulary_size:
            raise ValueError(
                f"{self._path} gave the id {highest}, and the model has {self._vocabulary_size} tokens: "
                "the file is not of this export. Export the model again."
            )
        # Models with one segment take ids of it.
        return {"segment_ids": np.zeros_like(inputs["token_ids"]), **inputs}

    def inside(self, length: int, width: int) -> slice:
        """Where the tokens of a row of this length stand in a batch of this width."""
        start = width - length if self.packer.layout.padding_side == "left" else 0
        return slice(start, start + length)

    def specials_before(self, number: int, texts: int) -> int:
        """How many special tokens stand before a text of a row, which is the one of this number."""
        parts = self.packer.layout.parts(texts)
        at = [place for place, part in enumerate(parts) if part.is_text]
        return at[number] - number


def _read_tokenizer(path: Path):
    """A tokenizer in Rust, which neither cuts nor pads.

    Raises:
        FileNotFoundError: there is none.
        ConfigError: the library cannot read it.
    """
    from tokenizers import Tokenizer

    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing; bert_zoo.export writes it. Copy all its files."
        )
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ConfigError(
            f"{path} is no tokenizer that Hugging Face's library reads: {shortened(str(error))}. Export the model again."
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
