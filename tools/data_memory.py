r"""Measures the memory of `write_token_shards` on a text and on the same text made longer.

    python tools/data_memory.py --texts ../shared/data/text/brown.txt \
        --vocabulary ../shared/data/vocab/bert_uncased --times 1,10,100

Each length in a process of its own. The sentences of a copy have its number behind them, so that no
two copies are the same text. Prints the most memory that was resident before and at the end, the libraries' files
included.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator

from absl import app, flags
from resident_memory import peak_memory

_TEXTS = flags.DEFINE_string("texts", None, "A file of text.", required=True)
_VOCABULARY = flags.DEFINE_string("vocabulary", None, "Directory of BERT's files.", required=True)
_TIMES = flags.DEFINE_list("times", ["1", "10", "100"], "How many copies of the text are read.")

MIB = 1 << 20


class Copies:
    """The documents of a text so many times, every sentence with the number of its copy."""

    def __init__(self, path: str, copies: int):
        self.path, self.copies = path, copies

    def __iter__(self) -> Iterator[list[str]]:
        from bert_zoo.data.corpus import Corpus

        for copy in range(self.copies):
            for document in Corpus(self.path):
                yield [f"{sentence} {copy}" for sentence in document]


def measured(copies: int) -> str:
    """What copies of the text cost: a line of the table."""
    from bert_zoo.data.corpus import Corpus
    from bert_zoo.data.token_shards import write_token_shards
    from bert_zoo.text import preprocessor_from_dir

    preprocessor = preprocessor_from_dir(_VOCABULARY.value, "bert", sequence_length=128)
    preprocessor(["Loads what the first text loads."])
    before = peak_memory()
    corpus = Corpus(Copies(_TEXTS.value, copies))
    with tempfile.TemporaryDirectory() as directory:
        shards = write_token_shards(corpus, preprocessor, directory)
        tokens = int(shards.counts.sum())
    return (
        f"{copies:>6} times: {tokens:>13,} tokens, {peak_memory() / MIB:,.0f} MiB at most, "
        f"{before / MIB:,.0f} MiB before it began"
    )


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; options begin with --.")
    if len(_TIMES.value) == 1:
        print(measured(int(_TIMES.value[0])))
        return
    for copies in _TIMES.value:
        subprocess.run([*(sys.executable, *sys.argv), f"--times={copies}"], check=True)


if __name__ == "__main__":
    app.run(main)
