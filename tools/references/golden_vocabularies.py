"""The tiny vocabularies of the golden checkpoints, and the files that hold them."""

import functools
import io
import json
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np
import sentencepiece
import transformers
from golden_files import write_json, write_lines

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


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
# BERT's between fairseq's tokens; BERT's own [UNK] is the unknown token.
FAIRSEQ_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
MPNET = [*FAIRSEQ_SPECIAL, *BERT, "<mask>"]


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
# fairseq fills a dictionary up with such words, which no text has.
FILLERS = ("madeupword0000", "madeupword0001", "madeupword0002")
ROBERTA = (*FAIRSEQ_SPECIAL, *BPE_TOKENS, *FILLERS, "<mask>")
DEBERTA_SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
DEBERTA = (*DEBERTA_SPECIAL, *BPE_TOKENS, "[MASK]")
_MORE_MERGES = ("Ġs he", "Ġ he", "Ġt o", "r e", "Ġ re")
GPT2 = (*BPE_TOKENS[:-1], *(merge.replace(" ", "") for merge in _MORE_MERGES), END)


def write_roberta(directory: pathlib.Path) -> None:
    write_ids(directory, ROBERTA, ("#version: 0.2", *BPE_MERGES))
    write_tokenizer(directory, "RobertaTokenizer")
    require_tokens(directory, "the cat's dog<mask>", "t he Ġcat 's Ġdog <mask>")


def write_deberta(directory: pathlib.Path) -> None:
    write_ids(directory, DEBERTA, ("#version: 0.2", *BPE_MERGES))
    # As the hub's.
    write_json(directory / "tokenizer_config.json", {"do_lower_case": False, "vocab_type": "gpt2"})


def write_gpt2(directory: pathlib.Path) -> None:
    write_ids(directory, GPT2, ("#version: 0.2", *BPE_MERGES, *_MORE_MERGES))
    write_tokenizer(directory, "GPT2Tokenizer")
    require_tokens(directory, f"the cat's dog{END}", f"t he Ġcat 's Ġdog {END}")


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


# --- BPE over characters -------------------------------------------------------------------------

# Of BERTweet: letters and signs within and at the end of a word, and what merges make.
_TWEET_MERGES = (
    *("t h", "th e</w>", "c a", "ca t</w>", "d o", "do g</w>", "i s</w>", "' s</w>", "@ U", "S E"),
    *("SE R</w>", "@U SER</w>", "H T", "T P", "HT TP", "U R", "UR L</w>", "HTTP URL</w>"),
)
_TWEET_LETTERS = f"{_LETTERS}HTPURLSE0123456789.,!?'#@_:"
_TWEET_TOKENS = tuple(
    f"{symbol}@@".replace("</w>@@", "")
    for symbol in (
        *(letter + end for letter in _TWEET_LETTERS for end in ("", "</w>")),
        *(merge.replace(" ", "") for merge in _TWEET_MERGES),
    )
)
BERTWEET_SIZE = len(FAIRSEQ_SPECIAL) + len(_TWEET_TOKENS) + len(("<mask>",))


def write_bertweet(directory: pathlib.Path) -> None:
    write_lines(directory / "vocab.txt", [f"{token} 1" for token in _TWEET_TOKENS])
    write_lines(directory / "bpe.codes", [f"{merge} 1" for merge in _TWEET_MERGES])
    write_tokenizer(directory, "BertweetTokenizer", normalization=True)
    require_tokens(directory, "@me the cat's www.x.yz", "@USER the cat 's HTTPURL")


_GPT_CHARACTERS = f"{_LETTERS}0123456789.,!?'-"
_GPT_MERGES = (
    *("t h", "th e</w>", "i n", "a n", "an d</w>", "a t</w>", "c at</w>", "s at</w>", "b i"),
    *("bi r", "bir d</w>", "r e", "h e</w>", "s he</w>", "in g</w>", "d o", "do g</w>"),
)
GPT = (
    "<unk>",
    *_GPT_CHARACTERS,
    *(f"{character}</w>" for character in _GPT_CHARACTERS),
    *(merge.replace(" ", "") for merge in _GPT_MERGES),
)


def write_gpt(directory: pathlib.Path) -> None:
    write_ids(directory, GPT, ("#version: 0.2", *_GPT_MERGES))
    write_tokenizer(directory, "OpenAIGPTTokenizer")
    require_tokens(directory, "The bIrd: sat", "the</w> bird</w> <unk> sat</w>")


LANGUAGES = ("de", "en", "fr")
XLM_SPECIAL = ("<s>", "</s>", "<pad>", "<unk>", *(f"<special{number}>" for number in range(10)))
XLM_MERGES = (
    *("t h", "th e</w>", "a n", "an d</w>", "c a", "ca t</w>", "s a", "sa t</w>", "o n</w>", "b i"),
    *("bi r", "bir d</w>", "d o", "do g</w>", "i n", "in g</w>", "i s</w>", "' s</w>", "w a"),
)
XLM = (
    *XLM_SPECIAL,
    *_LETTERS,
    *(f"{character}</w>" for character in f"{_LETTERS}.,'?!"),
    *(merge.replace(" ", "") for merge in XLM_MERGES),
)


def write_xlm(directory: pathlib.Path) -> None:
    # Of generating text, which the others' heads for masked tokens do not have.
    (directory / "generation_config.json").unlink(missing_ok=True)
    write_ids(directory, XLM, XLM_MERGES)
    languages = {}
    if directory.name != "encoder_one_language":
        languages["lang2id"] = {name: number for number, name in enumerate(LANGUAGES)}
        languages["id2lang"] = {str(number): name for number, name in enumerate(LANGUAGES)}
    write_tokenizer(directory, "XLMTokenizer", do_lowercase_and_remove_accent=True, **languages)


# --- SentencePiece -------------------------------------------------------------------------------

PIECES, XLNET_PIECES = 90, 95
ALBERT_SPECIAL = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
_XLNET_CONTROL = ("<cls>", "<sep>", "<pad>", "<mask>", "<eod>")
XLNET_SPECIAL = ("<unk>", "<s>", "</s>", *_XLNET_CONTROL, "<eop>")
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


def write_albert(directory: pathlib.Path) -> None:
    options = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
    options["control_symbols"] = list(ALBERT_SPECIAL[2:])
    train_sentencepiece(directory / "spiece.model", PIECES, ALBERT_SPECIAL, **options)
    options = {"do_lower_case": True, "keep_accents": False, "remove_space": True}
    write_tokenizer(directory, "AlbertTokenizer", **options)


def write_xlnet(directory: pathlib.Path) -> None:
    options = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "user_defined_symbols": ["<eop>"]}
    options["control_symbols"] = list(_XLNET_CONTROL)
    train_sentencepiece(directory / "spiece.model", XLNET_PIECES, XLNET_SPECIAL, **options)
    options = {"do_lower_case": False, "keep_accents": False, "remove_space": True}
    write_tokenizer(directory, "XLNetTokenizer", **options)


BIGBIRD_PIECES = 93
BIGBIRD_SPECIAL = ("<pad>", "</s>", "<s>", "<unk>", "[CLS]", "[SEP]", "[MASK]")


def write_bigbird(directory: pathlib.Path) -> None:
    """As Google's: what texts do not have is found in them, and there is no table of normalization."""
    roles = dict(zip(("pad", "eos", "bos", "unk"), range(4), strict=True))
    options = {f"{role}_id": index for role, index in roles.items()}
    options["user_defined_symbols"] = list(BIGBIRD_SPECIAL[4:])
    path = directory / "spiece.model"
    train_sentencepiece(path, BIGBIRD_PIECES, BIGBIRD_SPECIAL, **options)
    write_tokenizer(directory, "BigBirdTokenizer")


def _write_fairseq_pieces(directory: pathlib.Path, tokenizer: str) -> None:
    train_sentencepiece(directory / "sentencepiece.bpe.model", PIECES)
    write_tokenizer(directory, tokenizer)


write_xlm_roberta = functools.partial(_write_fairseq_pieces, tokenizer="XLMRobertaTokenizer")
write_camembert = functools.partial(_write_fairseq_pieces, tokenizer="CamembertTokenizer")


def write_deberta_v2(directory: pathlib.Path) -> None:
    roles = dict(zip(("pad", "bos", "eos", "unk"), enumerate(DEBERTA_SPECIAL), strict=True))
    options = {f"{role}_id": index for role, (index, _) in roles.items()}
    options |= {f"{role}_piece": piece for role, (_, piece) in roles.items()}
    train_sentencepiece(directory / "spm.model", PIECES, **options)
    write_json(directory / "tokenizer_config.json", {"do_lower_case": False, "vocab_type": "spm"})
    write_json(directory / "added_tokens.json", {"[MASK]": PIECES})
