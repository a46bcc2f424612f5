"""Makes what SentencePiece families give for texts with blanks, line ends and special tokens in odd places.

    python tools/references/blank_references.py golden

Of each golden vocabulary: pieces of the SentencePiece library, after what the family's original program does to
a text, and ids of a directory that transformers 5 wrote. Needs transformers 5 and sentencepiece.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hugging_face_tokenizers import ROOT, run, write_answers

# Family -> transformers' class, and the special tokens in texts.
FAMILIES = {
    "albert": ("AlbertTokenizer", "[MASK]", "[SEP]"),
    "bigbird": ("BigBirdTokenizer", "[MASK]", "[SEP]"),
    "camembert": ("CamembertTokenizer", "<mask>", "</s>"),
    "deberta_v2": ("DebertaV2Tokenizer", "[MASK]", "[SEP]"),
    "mt5": ("T5Tokenizer", "<extra_id_0>", "</s>"),
    "multilingual_minilm": ("XLMRobertaTokenizer", "<mask>", "</s>"),
    "t5": ("T5Tokenizer", "<extra_id_0>", "</s>"),
    "umt5": ("T5Tokenizer", "<extra_id_0>", "</s>"),
    "xlm_roberta": ("XLMRobertaTokenizer", "<mask>", "</s>"),
    "xlnet": ("XLNetTokenizer", "<mask>", "<sep>"),
}
# What their programs do to a text before SentencePiece reads it; nothing in most: albert/tokenization.py and
# xlnet/prepro_utils.py, preprocess_text; bigbird/pretrain/run_pretraining.py, --substitute_newline.
PREPARED: dict[str, Callable[[str], str]] = {
    "albert": lambda text: " ".join(text.lower().split()),
    "xlnet": lambda text: " ".join(text.split()),
    "bigbird": lambda text: text.replace("\n", " "),
}
BLANKS = (" ", "  ", "   ", "\n", "\r\n", " \n", "\n\n", "\t", "\xa0", " \xa0", "\u3000")
SENTENCES = (("the cat sat", "on the tree."), ("We walked", "to 37 cities"), ("film", "!"))


def texts_of(mask: str, sep: str) -> list[str]:
    """Sentences with blanks at both ends, between words, and around special tokens; and blanks alone."""
    texts = [*BLANKS, ""]
    for (first, second), blank in itertools.product(SENTENCES, BLANKS):
        texts += [f"{first} {second}{blank}", f"{blank}{first} {second}", f"{first}{blank}{second}"]
    for token, before, after in itertools.product((mask, sep), ("", *BLANKS), ("", *BLANKS)):
        first, second = SENTENCES[len(texts) % len(SENTENCES)]
        texts.append(f"{first}{before}{token}{after}{second}")
    pairs = itertools.product(("", " ", "\n"), repeat=3)
    return texts + [f"{a}{mask}{b}{sep}{c}" for a, b, c in pairs]


def write_golden() -> None:
    """Writes blanks.json.gz."""
    import sentencepiece
    import transformers

    versions = {each.__name__: each.__version__ for each in (sentencepiece, transformers)}
    answers: dict[str, object] = {"versions": versions}
    for family, (tokenizer_class, *special) in FAMILIES.items():
        directory = ROOT / "tests" / "golden" / family / "encoder"
        texts = texts_of(*special)
        (model,) = directory.glob("*.model")
        library = sentencepiece.SentencePieceProcessor(str(model))
        prepare = PREPARED.get(family, str)

        def pieces(text: str, special=special, library=library, prepare=prepare) -> list[str]:
            found = []
            for part in re.split("|".join(f"({re.escape(token)})" for token in special), text):
                if part in special:
                    found.append(part)
                elif part:
                    found += [library.id_to_piece(i) for i in library.encode(prepare(part))]
            return found

        with tempfile.TemporaryDirectory() as written:
            # Without added_tokens.json, which makes [MASK] a token that is found in normalised text.
            for path in (model, directory / "tokenizer_config.json"):
                shutil.copy(path, written)
            theirs = getattr(transformers, tokenizer_class).from_pretrained(written)
            theirs.save_pretrained(written)
            Path(written, model.name).unlink()
            files = {
                name: json.loads(Path(written, name).read_text())
                for name in ("tokenizer.json", "tokenizer_config.json")
            }
            again = transformers.AutoTokenizer.from_pretrained(written)
        answers[family] = {
            "texts": texts,
            "special": special,
            "library": [pieces(text) for text in texts],
            "files": files,
            "transformers": again(texts, add_special_tokens=False)["input_ids"],
        }
    write_answers("blanks.json.gz", answers)


if __name__ == "__main__":
    run({"golden": write_golden})
