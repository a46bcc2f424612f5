"""Tiny vocabularies of golden checkpoints, one of each kind, and the files that hold them."""

import io
import json
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np
import sentencepiece
import transformers
from golden_case import write_json

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def write_lines(path: pathlib.Path, lines: Iterable[str]) -> None:
    path.write_text("\n".join(lines) + "\n")


def write_ids(directory: pathlib.Path, vocabulary: Iterable[str], merges: Iterable[str]) -> None:
    """vocab.json and merges.txt."""
    ids = {token: index for index, token in enumerate(vocabulary)}
    (directory / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False))
    write_lines(directory / "merges.txt", merges)


def write_tokenizer(directory: pathlib.Path, tokenizer: str, **options) -> None:
    """tokenizer_config.json, which names a class of transformers."""
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": tokenizer, **options})


def require_tokens(directory: pathlib.Path, text: str, wanted: str) -> None:
    """Raises an error unless transformers splits the text into these tokens."""
    tokens = transformers.AutoTokenizer.from_pretrained(directory).tokenize(text)
    if tokens != wanted.split():
        raise ValueError(f"transformers reads the vocabulary in {directory} as {tokens}.")


# --- WordPiece -----------------------------------------------------------------------------------

BERT = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *_LETTERS,
    *(f"##{letter}" for letter in _LETTERS),
    *"0123456789",
    *".,!?'-",
    *"the is was it in on of and to cat dog bird sat ran saw tree river house red blue".split(),
    *"big small good bad very not this that he she they we you day night city film book".split(),
    *"tea ##ing ##ed ##ly ##er ##est ##un ##able ##ful".split(),
]


def wordpiece(vocabulary: Iterable[str], tokenizer: str):
    """Writes vocab.txt of a tokenizer that lower-cases."""

    def write(directory: pathlib.Path) -> None:
        write_lines(directory / "vocab.txt", vocabulary)
        write_tokenizer(directory, tokenizer, do_lower_case=True)

    return write


# --- Byte-level BPE over a part of ASCII ---------------------------------------------------------

BPE_MERGES = tuple(
    line.replace("_", "Ġ")  # how byte-level BPE writes a space
    for line in (
        *("_ t", "h e", "_t he", "_ a", "i n", "_ s", "_a n", "_an d", "_ w", "_w a", "_wa s"),
        *("_ c", "a t", "_c at", "_ b", "i r", "_b ir", "_bir d", "_ d", "o g", "_d og", "e r"),
        *("in g", "_ o", "_o n", "_o f", "_ i", "_i s", "_i t", "_s at", "_s a", "' s", "' t"),
    )
)
END = "<|endoftext|>"
BPE_TOKENS = (
    *f"{_LETTERS}0123456789.,!?'-",
    "Ġ",
    *(merge.replace(" ", "") for merge in BPE_MERGES),
    END,
)
FAIRSEQ_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
# fairseq fills a dictionary up with such words, which no text has.
FILLERS = ("madeupword0000", "madeupword0001", "madeupword0002")
ROBERTA = (*FAIRSEQ_SPECIAL, *BPE_TOKENS, *FILLERS, "<mask>")


def write_roberta(directory: pathlib.Path) -> None:
    write_ids(directory, ROBERTA, ("#version: 0.2", *BPE_MERGES))
    write_tokenizer(directory, "RobertaTokenizer")
    require_tokens(directory, "the cat's dog<mask>", "t he Ġcat 's Ġdog <mask>")


# ModernBERT's runs of blanks are tokens that are looked for in normalised texts; so are the unused ones.
_ADDED = (*(" " * number for number in range(6, 1, -1)), "|||EMAIL_ADDRESS|||", "[unused0]")
MODERNBERT_SPECIAL = ("<|padding|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
# Letters that NFC composes have no place of their own in the file's tiny alphabet.
MODERNBERT = (*MODERNBERT_SPECIAL, *BPE_TOKENS, "Ã", "©", "Ì", "ģ", *_ADDED)


def write_modernbert(directory: pathlib.Path) -> None:
    """A tokenizer.json as the released one, of fewer tokens."""
    from tokenizers import (
        AddedToken,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
    )

    ids = {token: index for index, token in enumerate(MODERNBERT[: -len(_ADDED)])}
    tokenizer = Tokenizer(models.BPE(ids, [tuple(merge.split()) for merge in BPE_MERGES]))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(t, lstrip=t == "[MASK]", normalized=False) for t in MODERNBERT_SPECIAL]
    )
    tokenizer.add_tokens([AddedToken(token, normalized=True) for token in _ADDED])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[(token, MODERNBERT.index(token)) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.save(str(directory / "tokenizer.json"))
    named = {f"{role}_token": f"[{role.upper()}]" for role in ("cls", "sep", "pad", "mask", "unk")}
    write_tokenizer(directory, "PreTrainedTokenizerFast", **named)


# --- SentencePiece -------------------------------------------------------------------------------

PIECES = 90
_SENTENCE_WORDS = (
    "the is was it in on of and to cat dog bird sat ran saw tree river house red blue big small "
    "good bad very not this that he she they we you day night city film book tea walking walked "
    "quickly higher highest unable hopeful 12 37 405 , . ! ? ' -"
).split()


def train_sentencepiece(
    path: pathlib.Path, num_pieces: int, first: Sequence[str] = (), **options
) -> None:
    """Writes a unigram model trained on random rows of words.

    Text is taken as it is, without normalization: the tables for it would be most of the file.

    Args:
        path: of the model.
        num_pieces: how many it has.
        first: what it must begin with.
        options: further ones of the trainer.
    """
    rng = np.random.default_rng(0)
    sentences = (" ".join(rng.choice(_SENTENCE_WORDS, 9)) for _ in range(400))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences,
        model_writer=model,
        model_type="unigram",
        vocab_size=num_pieces,
        character_coverage=1.0,
        normalization_rule_name="identity",
        num_threads=1,
        minloglevel=2,
        **options,
    )
    path.write_bytes(model.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
    begins = [pieces.id_to_piece(i) for i in range(len(first))]
    if begins != list(first) or len(pieces) != num_pieces:
        raise ValueError(f"{path} has {len(pieces)} pieces and begins with {begins}.")


def write_xlm_roberta(directory: pathlib.Path) -> None:
    train_sentencepiece(directory / "sentencepiece.bpe.model", PIECES)
    write_tokenizer(directory, "XLMRobertaTokenizer")
