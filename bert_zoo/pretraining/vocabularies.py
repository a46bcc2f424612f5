"""Makes vocabularies: subwords, trained by the libraries tokenizers and sentencepiece; or words, characters
and bytes by frequency.

The libraries come with `pip install "bert_zoo[vocabularies]"`. `bert_zoo.text.tokenizer_from_dir` reads the
files, and its tokenizers give the same ids as the libraries.
"""

from __future__ import annotations

import importlib
import io
import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bert_zoo.fields import check
from bert_zoo.pretraining.streams import pieces_of
from bert_zoo.text.files import SUFFIX
from bert_zoo.text.word_level import NEWLINE, UNITS
from bert_zoo.weights.files import write_json

# The least count of a subword.
_MIN_COUNT = 2
# Texts to split into words in one call.
_WORDS_OF = 1_000
# For SentencePiece, which holds all sentences in memory.
_MOST_SENTENCES = 1_000_000
# Number of sentinels of hidden spans.
_SENTINELS = 100


def train_vocabulary(
    texts: Iterable[str],
    kind: str,
    directory: str | Path,
    *,
    vocab_size: int,
    lowercase: bool = False,
    languages: Sequence[str] = (),
) -> list[str]:
    """Trains a vocabulary and writes its files. Returns the tokens in the order of their ids.

    - "wordpiece", like BERT's: [PAD], [UNK], [CLS], [SEP] and [MASK] come first; vocab.txt.
    - "byte_bpe", like RoBERTa's: <s>, <pad>, </s> and <unk> come first, <mask> last; vocab.json and
      merges.txt.
    - "byte_bpe_bracketed", the same, like DeBERTa 1's: [PAD], [CLS], [SEP] and [UNK] come first, [MASK]
      last.
    - "word_bpe", like XLM's: <s>, </s>, <pad>, <unk> and <special0> to <special9> come first; vocab.json
      and merges.txt. Words are split as in English.
    - "sentencepiece", like ALBERT's, a unigram model: <pad>, <unk>, [CLS], [SEP] and [MASK] come first;
      spiece.model. It is trained on a random million of the texts if there are more.
    - "sentencepiece_cased", the same, like XLNet's, without accents: <unk>, <s>, </s>, <cls>, <sep>, <pad>,
      <mask>, <eod> and <eop> come first.
    - "sentencepiece_plain", like DeBERTa 2's and 3's, a unigram model of unchanged texts: [PAD], [CLS],
      [SEP] and [UNK] come first, and [MASK] last; spm.model.
    - "sentencepiece_sentinels", like T5's, a unigram model of unchanged texts: <pad>, </s> and <unk> come
      first, and <extra_id_99> to <extra_id_0> last; spiece.model.

    Args:
        vocab_size: number of tokens, including special tokens. If the texts have fewer subwords, the
            vocabulary is smaller, or SentencePiece raises an error.
        lowercase: lower-case texts and remove accents; only for "wordpiece", "word_bpe" and
            "sentencepiece".
        languages: for "word_bpe", names of the model's languages, which get the numbers 0, 1, ...
    """
    check("kind", kind, str, choices=KINDS)
    if lowercase and kind in CASED_KINDS:
        raise ValueError(f"The kind {kind!r} does not change texts. Leave lowercase out.")
    if languages and kind != "word_bpe":
        raise ValueError(f"The kind {kind!r} reads all languages alike. Leave languages out.")
    tokens, files = KINDS[kind](iter(texts), vocab_size, lowercase)
    if languages:
        numbers = {name: number for number, name in enumerate(languages)}
        names = {str(number): name for name, number in numbers.items()}
        files["tokenizer_config.json"] |= {
            "language": languages[0],
            "lang2id": numbers,
            "id2lang": names,
        }
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if isinstance(content, bytes):
            (directory / name).write_bytes(content)
        else:
            write_json(directory / name, content)
    return tokens


Files = dict[str, Any]


def _wordpiece(texts: Iterator[str], vocab_size: int, lowercase: bool) -> tuple[list[str], Files]:
    library = _library("tokenizers")
    trained = library.Tokenizer(library.models.WordPiece(unk_token="[UNK]"))
    trained.normalizer = library.normalizers.BertNormalizer(lowercase=lowercase)
    trained.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = _trained(
        trained, "WordPiece", texts, vocab_size, special, continuing_subword_prefix=SUFFIX
    )
    return tokens, {
        "vocab.txt": _lines(tokens),
        "tokenizer_config.json": {"tokenizer_class": "BertTokenizer", "do_lower_case": lowercase},
    }


def _byte_bpe(
    texts: Iterator[str],
    vocab_size: int,
    lowercase: bool,
    special: Sequence[str] = ("<s>", "<pad>", "</s>", "<unk>"),
    mask: str = "<mask>",
    tokenizer_class: str = "RobertaTokenizer",
) -> tuple[list[str], Files]:
    library = _library("tokenizers")
    trained = library.Tokenizer(library.models.BPE())
    trained.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = library.pre_tokenizers.ByteLevel.alphabet()
    tokens = _trained(trained, "Bpe", texts, vocab_size - 1, special, initial_alphabet=alphabet)
    # Tokens include the space before them, so the mask token takes it too (lstrip). transformers 5 requires
    # __type.
    mask_token = {"__type": "AddedToken", "content": mask, "lstrip": True, "special": True}
    config = {"tokenizer_class": tokenizer_class, "mask_token": mask_token}
    return [*tokens, mask], _bpe_files([*tokens, mask], trained, config, ["#version: 0.2"])


def _word_bpe(texts: Iterator[str], vocab_size: int, lowercase: bool) -> tuple[list[str], Files]:
    library = _library("tokenizers")
    from bert_zoo.families.xlm.text import MosesWords

    words_of = MosesWords("en", lowercase=lowercase)

    def words() -> Iterator[str]:
        while batch := list(islice(texts, _WORDS_OF)):
            for row in words_of(batch).to_list():
                yield b" ".join(row).decode("utf-8")

    end = "</w>"
    trained = library.Tokenizer(library.models.BPE(end_of_word_suffix=end))
    trained.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    special = ["<s>", "</s>", "<pad>", "<unk>", *(f"<special{n}>" for n in range(10))]
    tokens = _trained(trained, "Bpe", words(), vocab_size, special, end_of_word_suffix=end)
    config = {"tokenizer_class": "XLMTokenizer", "do_lowercase_and_remove_accent": lowercase}
    return tokens, _bpe_files(tokens, trained, config)


def _trained(
    tokenizer: Any,
    model: str,
    texts: Iterator[str],
    vocab_size: int,
    special: Sequence[str],
    **options,
) -> list[str]:
    """Trains a tokenizer of `tokenizers`; returns its tokens in the order of their ids."""
    trainer = getattr(_library("tokenizers").trainers, f"{model}Trainer")(
        vocab_size=vocab_size,
        min_frequency=_MIN_COUNT,
        special_tokens=[*special],
        show_progress=False,
        **options,
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.get)


def _bpe_files(
    tokens: Sequence[str], trained: Any, config: dict[str, Any], head: Sequence[str] = ()
) -> Files:
    pairs = json.loads(trained.to_str())["model"]["merges"]
    # Older versions of the library write a merge as one string.
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in pairs]
    return {
        "vocab.json": {token: number for number, token in enumerate(tokens)},
        "merges.txt": _lines([*head, *merges]),
        "tokenizer_config.json": config,
    }


def _lines(texts: Sequence[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode("utf-8")


def _sentencepiece(
    texts: Iterator[str],
    vocab_size: int,
    lowercase: bool,
    *,
    options: Mapping[str, Any],
    config: Mapping[str, Any],
    rewritten: Callable[[str], str] = str,
    last: Sequence[str] = (),
    model_file: str = "spiece.model",
) -> tuple[list[str], Files]:
    """Trains a unigram model on rewritten texts, with `options` of its trainer; `last` are tokens after its own."""
    library = _library("sentencepiece")
    model = io.BytesIO()
    try:
        library.SentencePieceTrainer.train(
            sentence_iterator=map(rewritten, texts),
            model_writer=model,
            vocab_size=vocab_size - len(last),
            model_type="unigram",
            character_coverage=0.99995,
            input_sentence_size=_MOST_SENTENCES,
            shuffle_input_sentence=True,
            minloglevel=2,
            **options,
        )
    except RuntimeError as error:
        raise ValueError(
            f"SentencePiece cannot make a vocabulary of {vocab_size - len(last):,} tokens from these texts ({error}). "
            "Choose a smaller vocab_size, or more text."
        ) from error
    processor = library.SentencePieceProcessor(model_proto=model.getvalue())
    tokens = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    return [*tokens, *last], {
        model_file: model.getvalue(),
        "tokenizer_config.json": {**config},
    }


def _sentencepiece_uncased(
    texts: Iterator[str], vocab_size: int, lowercase: bool
) -> tuple[list[str], Files]:
    options = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
    options["control_symbols"] = ["[CLS]", "[SEP]", "[MASK]"]
    config = {"do_lower_case": lowercase, "keep_accents": not lowercase}
    return _sentencepiece(
        texts,
        vocab_size,
        lowercase,
        options=options,
        config={"tokenizer_class": "AlbertTokenizer", **config},
        rewritten=_without_accents if lowercase else str,
    )


def _without_accents(text: str) -> str:
    return _without_marks(text).lower()


def _without_marks(text: str) -> str:
    text = unicodedata.normalize("NFKD", text)
    return "".join(c for c in text if not unicodedata.combining(c))


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f'Training this vocabulary needs {name}: pip install "bert_zoo[vocabularies]".'
        ) from error


Trainer = Callable[[Iterator[str], int, bool], tuple[list[str], Files]]
KINDS: dict[str, Trainer] = {
    "wordpiece": _wordpiece,
    "byte_bpe": _byte_bpe,
    "byte_bpe_bracketed": partial(
        _byte_bpe,
        special=("[PAD]", "[CLS]", "[SEP]", "[UNK]"),
        mask="[MASK]",
        tokenizer_class="DebertaTokenizer",
    ),
    "word_bpe": _word_bpe,
    "sentencepiece": _sentencepiece_uncased,
    "sentencepiece_cased": partial(
        _sentencepiece,
        options={
            **{"unk_id": 0, "bos_id": 1, "eos_id": 2},
            "control_symbols": ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"],
            "user_defined_symbols": ["<eop>"],
        },
        config={
            "tokenizer_class": "XLNetTokenizer",
            "do_lower_case": False,
            "keep_accents": False,
        },
        rewritten=_without_marks,
    ),
    "sentencepiece_plain": partial(
        _sentencepiece,
        options={
            **{"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3},
            **{
                "pad_piece": "[PAD]",
                "bos_piece": "[CLS]",
                "eos_piece": "[SEP]",
                "unk_piece": "[UNK]",
            },
        },
        config={"tokenizer_class": "DebertaV2Tokenizer", "do_lower_case": False},
        last=("[MASK]",),
        model_file="spm.model",
    ),
    "sentencepiece_sentinels": partial(
        _sentencepiece,
        options={"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
        config={"tokenizer_class": "T5Tokenizer", "extra_ids": _SENTINELS},
        last=tuple(f"<extra_id_{number}>" for number in reversed(range(_SENTINELS))),
    ),
}
CASED_KINDS = (
    *("byte_bpe", "byte_bpe_bracketed"),
    *("sentencepiece_cased", "sentencepiece_plain", "sentencepiece_sentinels"),
)


# --- Vocabularies of words, characters and bytes ---


def count_tokens(
    paths: Iterable[str | Path],
    *,
    unit: str = "word",
    lowercase: bool = False,
    space_token: str | None = None,
) -> Counter[str]:
    """Token -> count, in the order of first appearance, as a `WordLevelTokenizer` with the same options splits."""
    check("unit", unit, str, choices=UNITS)
    counts: Counter = Counter()
    for path in paths:
        for piece in pieces_of(path, unit, strip=space_token is not None):
            if unit == "byte":
                counts.update(piece)
                continue
            text = piece.decode("utf-8")
            text = text.lower() if lowercase else text
            counts.update(text.split() if unit == "word" else text)
    if unit == "byte":
        del counts[NEWLINE]
        return Counter({str(value): count for value, count in counts.items()})
    if space_token is None:
        return counts
    # A space counts as its token, with the first place of either.
    merged: Counter[str] = Counter()
    for token, count in counts.items():
        merged[space_token if token == " " else token] += count
    return merged


def build_vocabulary(
    paths: Iterable[str | Path],
    *,
    unit: str = "word",
    lowercase: bool = False,
    space_token: str | None = None,
    max_size: int | None = None,
    min_count: int = 0,
    special: Sequence[str] = ("<eos>",),
    unknown_token: str | None = "<unk>",
) -> list[str]:
    """Makes a vocabulary of words, characters or bytes from text files, by falling frequency.

    The original (Transformer-XL) counts only train.txt for WikiText-103, and train.txt, valid.txt and
    test.txt, in this order, for the Penn Treebank, WikiText-2, enwik8 and text8. For the last two, pass
    `special=()` and `unknown_token=None`.

    Args:
        paths: text files, in UTF-8 unless the unit is "byte".
        unit, lowercase, space_token: as for `bert_zoo.text.WordLevelTokenizer`.
        max_size: number of tokens to keep, the most frequent ones; None for all. Special tokens that the
            texts lack are added.
        min_count: drop tokens with a lower count.
        special: tokens that come first.
        unknown_token: ranked by its own count if the texts contain it, as WikiText contains `<unk>`. Else,
            or if `min_count` drops it, it follows the special tokens. None for a vocabulary without it.

    Returns:
        The tokens in the order of their ids.

    Raises:
        FileNotFoundError: no such file.
        ValueError: an unknown unit, an empty file, or bytes that are not UTF-8.

    Source: Dai et al. 2019; kimiyoung/transformer-xl pytorch/utils/vocabulary.py.
    """
    counts = count_tokens(paths, unit=unit, lowercase=lowercase, space_token=space_token)
    return select_tokens(
        counts, max_size=max_size, min_count=min_count, special=special, unknown_token=unknown_token
    )


def select_tokens(
    counts: Mapping[str, int],
    *,
    max_size: int | None = None,
    min_count: int = 0,
    special: Sequence[str] = ("<eos>",),
    unknown_token: str | None = "<unk>",
) -> list[str]:
    """Orders tokens like the original's vocabularies: special ones, then by falling frequency.

    Of equal counts the first one in `counts` is first. The options are those of `build_vocabulary`.
    """
    frequent = [s for s, n in Counter(counts).most_common(max_size) if n >= min_count]
    if unknown_token is not None and unknown_token not in frequent:
        special = [*special, unknown_token]
    return list(dict.fromkeys([*special, *frequent]))
