"""ByT5 (Xue et al. 2022, arXiv:2105.13626): T5 on bytes, with an encoder three times as deep as its decoder."""

from dataclasses import replace
from typing import Any

from bert_zoo.families.t5 import family as t5
from bert_zoo.families.t5 import formats
from bert_zoo.families.t5.checkpoints import BYT5
from bert_zoo.families.t5.config import GATED
from bert_zoo.families.t5.vocabulary import LAYOUT, SPECIAL_TOKENS
from bert_zoo.text.added_tokens import AddedToken
from bert_zoo.text.byte_bpe_files import read_byte_bpe
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts

ROWS = 384  # rows of the token table: three special tokens, bytes, sentinels
SENTINELS = [f"<extra_id_{i}>" for i in range(125)]
ADDED_TOKENS = [
    *(
        AddedToken(t, lstrip=True, rstrip=True, special=True).as_dict()
        for t in ("<pad>", "</s>", "<unk>")
    ),
    *(AddedToken(sentinel, special=True).as_dict() for sentinel in SENTINELS),
]


def bytes_as_tokens(files: VocabularyFiles) -> tuple[list[str], list[tuple[str, ...]]]:
    """Returns the vocabulary, which needs no file: a byte's id is the byte + 3, and there are no merges."""
    from bert_zoo.text.byte_bpe import ALPHABET

    return ["<pad>", "</s>", "<unk>", *sorted(ALPHABET, key=ALPHABET.get), *SENTINELS], []


def read_bytes(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Makes a byte tokenizer, which needs no file."""
    absent = dict.fromkeys(("cls_token", "mask_token"))
    options = {"added_tokens": ADDED_TOKENS, **SPECIAL_TOKENS, **absent, **overrides}
    return read_byte_bpe(files, options, read=bytes_as_tokens)


FAMILY = replace(
    t5.FAMILY,
    name="byt5",
    defaults=t5.FAMILY.defaults | GATED | {"vocab_size": ROWS},
    formats={
        "hf": formats.hugging_face("t5", "T5", tokenizer_class="ByT5Tokenizer"),
        "tf1": formats.Original(rows=ROWS),
    },
    text=TextFormat(read_bytes, layout=LAYOUT),
    checkpoints=BYT5,
    # Its sentinels are the ids 258, 257 and so on, of bytes that no UTF-8 text has.
    pretraining="",
    pretraining_preset=None,
)
