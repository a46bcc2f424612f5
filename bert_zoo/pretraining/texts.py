"""The texts to train on and to evaluate on."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bert_zoo.pretraining.corpus import (
    Corpus,
    CorpusCounts,
    ParallelLines,
    files_of,
    reading_in_turn,
)
from bert_zoo.pretraining.masked_rows import MaskedRows, part_of
from bert_zoo.pretraining.streams import MISFIT, FileStream, StreamPart, misfit
from bert_zoo.pretraining.tokens import TokenizedText, write_tokens

Text = TokenizedText | StreamPart | MaskedRows
HELD_OUT, GENERAL = "held out", "general text"


class Texts(NamedTuple):
    trained_on: Text
    measured: dict[str, Text]  # name -> text to evaluate on
    held_out: Corpus | None = None  # the documents that are set aside


def read_documents(
    text: Sequence[str] | str,
    general_text: Sequence[str] | str | None,
    held_out: float,
    preprocessor: Any,
    directory: Path,
    *,
    reading: Mapping[str, Any],
    languages: Sequence[str] = (),
    as_tokenized: Callable[[Sequence[str], Any], Sequence[str]],
) -> Texts:
    """Reads documents, tokenizes them once into a directory, and sets some aside by their content.

    Args:
        languages: languages of a text with one file per language.
        as_tokenized: (sentences of a document, tokenizer) -> texts to tokenize.
    """
    source, reader, tokenizer = text, preprocessor, preprocessor.tokenizer
    if languages:
        source, reader = ParallelLines(text, languages), reading_in_turn(preprocessor, languages)
    corpus = partial(Corpus, drop_duplicates=("documents",))

    def tokens_of(corpus: Corpus, where: str) -> TokenizedText:
        try:
            tokens = write_tokens(
                corpus,
                reader,
                directory / where,
                rewritten=partial(as_tokenized, tokenizer=tokenizer),
            )
        except MISFIT as error:
            raise misfit("The text", error) from error
        except ValueError:
            if corpus.counts.documents or not corpus.counts.other_part:
                raise
            raise ValueError(
                f"None of {corpus.counts.other_part:,} documents belongs to the part {corpus.part!r}. Check "
                "that blank lines separate documents (or that each line is one), or change --held_out, the "
                "share to set aside (0 for none)."
            ) from None
        counts = CorpusCounts(**tokens.index["corpus"])
        name = corpus.part.replace("_", " ").capitalize()
        print(f"{name}: {counts}; {tokens.num_tokens:,} tokens.")
        return tokens

    documents = corpus(source, held_out=held_out, part="train", **reading)
    trained_on = tokens_of(documents, "train")
    if documents.division:
        print(documents.division)
    corpora = {}
    if held_out:
        corpora[HELD_OUT] = corpus(source, held_out=held_out, part="held_out", **reading)
    if general_text is not None:
        corpora[GENERAL] = corpus(general_text)
    measured = {name: tokens_of(each, name.replace(" ", "_")) for name, each in corpora.items()}
    return Texts(trained_on, measured, corpora.get(HELD_OUT))


def read_streams(
    text: Sequence[str] | str,
    general_text: Sequence[str] | str | None,
    held_out: float,
    preprocessor: Any,
    directory: Path,
) -> Texts:
    """Reads whole files as one stream, and sets its end aside."""

    def tokens_of(source: Any, where: str) -> TokenizedText:
        files = files_of(source)
        try:
            return write_tokens(
                FileStream(files, preprocessor.tokenizer), preprocessor, directory / where
            )
        except MISFIT as error:
            raise misfit(", ".join(map(str, files)), error) from error

    whole = tokens_of(text, "train")
    end = math.ceil(whole.num_tokens * (1 - held_out))
    measured: dict[str, Text] = {}
    if held_out:
        measured[HELD_OUT] = StreamPart(whole, end, whole.num_tokens)
    if general_text is not None:
        measured[GENERAL] = tokens_of(general_text, GENERAL.replace(" ", "_"))
    return Texts(StreamPart(whole, 0, end), measured)


def read_masked_rows(
    text: Sequence[str] | str, general_text: Sequence[str] | str | None, held_out: float
) -> Texts:
    """Reads rows that are masked already, and sets whole files aside."""
    trained_on, aside = part_of(files_of(text), held_out)
    measured: dict[str, Text] = {} if aside is None else {HELD_OUT: aside}
    if general_text is not None:
        measured[GENERAL] = MaskedRows(files_of(general_text))
    return Texts(trained_on, measured)
