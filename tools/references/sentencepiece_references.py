"""Makes what bert_zoo's SentencePiece tokenizers are measured against, from the original codes.

    python tools/references/sentencepiece_references.py tables
    python tools/references/sentencepiece_references.py model
    python tools/references/sentencepiece_references.py golden PATH_OF_GOOGLE_ALBERT/tokenization.py
    python tools/references/sentencepiece_references.py xlnet
    python tools/references/sentencepiece_references.py camembert

`tables` writes "python" in bert_zoo/text/unicode_tables.json, from Python 3.11. `model` trains the small
XLM-R-like model that tests use. `golden` runs google-research/albert's tokenization.py (without its
TensorFlow 1 imports) and Hugging Face's XLMRobertaTokenizer on the texts of tests/text_samples.py; `xlnet`
runs transformers 4's XLNetTokenizer, which does what zihangdai/xlnet prepro_utils.py does (transformers 5's splits
no commas off numbers), with the pieces of ALBERT's model; `camembert` transformers 4's CamembertTokenizer with
the small model.

Needs sentencepiece 0.2.1 (0.2.2 breaks ties between segmentations in another way, see
docs/text.md), six and, for `golden`, transformers and ../shared/data; for `xlnet` and `camembert` transformers 4.35.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import re
import sys
import tempfile
import types
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

import sentencepiece
from hugging_face_tokenizers import (
    CODE_POINTS,
    GOLDEN,
    SHARED_DATA,
    ids,
    ranges_of,
    run,
    write_answers,
    write_section,
    xlm_roberta,
)

# isort: split
# Beside the tests, where hugging_face_tokenizers lets them be found.
import text_samples

# The golden file holds these texts and settings, too, so the tests read them there.
WRITTEN_TEXTS = [
    *text_samples.WRITTEN_TEXTS,
    "In 1999, 2,000 and 12,345,678 were 3, 4, or 5,; x1, ١٢, ２, ②, 1,,2, ,3",
    "``quoted'' and `this' or ''that``, '''three''' ````four````",
    " \x1c two \x1d\x1e spaces\x1f\x85\xa0\u1680\u2000\u202f\u205f\u3000\u200b\u180e here ",
    "¨ leading, ´ trailing ¨",
    "ΌΣΟΣ Σ ΣΑΣ. ΑΣ'Α Α\u0301Σ\u0301 ΑΣ\u00adΑ Α:Σ: ǅΣ ªΣ ⓐΣ 1Σ ΑΣΣ ΑΣ\nΑΣ ᾼΣ",
    "Istanbul İstanbul ISTANBUL ıI ŒUVRE Ǆ ǅ ẞ ﬀ ﷺ ㎒ ½ Å K",
    "Paris is the <mask> of France.",
    "<s>a</s></s>b<pad><unk><mask><mask> <mask>, glued<mask>in",
    "<s <mask>> <<s>> <MASK> < mask >",
    "La vie est belle, n'est-ce pas ? Der Fluß fließt über Köln.",
    "De vakantie begint morgen; ¿dónde está la biblioteca? Não sei.",
    "Tôi yêu tiếng nước tôi. Mówię po polsku. Kèk moun ap rive.",
    "Мы едем в горы завтра утром, а вы? Добрый день!",
    "明日は雨が降るでしょう。オレンジジュースを飲みます。",
    "내일 아침에 산으로 갑니다. 안녕하세요!",
    "كيف حالك اليوم؟ הספר על השולחן. आज मौसम अच्छा है।",
]

# What TextCleaner is compared on, for every code point in these contexts.
CLEANING = {
    "albert": {"keep_accents": False, "lowercase": True},
    "cased": {"keep_accents": False, "lowercase": False},
    "accents": {"keep_accents": True, "lowercase": True},
}
CONTEXTS = "A{0}Σ AΣ{0} AΣ{0}B 1{0}Σ Σ{0}Σ {0}Σ{0} a{0}\u0301c {0} {0}  {0}"

# Where Hugging Face's fast tokenizer and the SentencePiece library give different ids.
DEVIATING_TEXTS = {
    "ｶﾞｷﾞ ¯\u0301": "a character and its mark, of which the Rust library normalises the first alone",
    "▁Paris ▁▁is": "a literal ▁ at the start of a word, which stands for the Rust library's own",
    "\xa0\u0301": "the same, here a space",
}

# ---------------------------------------------------------------------------------------------
# Unicode tables
# ---------------------------------------------------------------------------------------------


def write_tables() -> None:
    """Writes the section "python" of unicode_tables.json."""
    if not unicodedata.unidata_version.startswith("14."):
        sys.exit(f"Run this with Python 3.11; this one has Unicode {unicodedata.unidata_version}.")

    def changes(char: str) -> bool:
        normal = unicodedata.normalize("NFKD", char)
        return normal != char or unicodedata.combining(char) > 0 or char.lower() != char

    def makes_final(text: str) -> bool:
        return f"{text}Σ".lower().endswith("ς")

    chars = list(map(chr, CODE_POINTS))
    # A sigma is final after a cased letter, also past ignorable characters.
    ignorable = [char for char in chars if makes_final(f"A{char}") and not makes_final(f"1{char}")]
    tables = {
        "changed": filter(changes, chars),
        "whitespace": (char for char in chars if len(f"a{char}b".split()) == 2),
        "case_ignorable": ignorable,
        "cased": (char for char in chars if makes_final(f"1{char}")),
        "starter_marks": (
            char
            for char in chars
            if unicodedata.category(char).startswith("M") and not unicodedata.combining(char)
        ),
    }
    tables = {name: ranges_of(map(ord, found)) for name, found in tables.items()}
    write_section("python", f"Python 3.11 (Unicode {unicodedata.unidata_version})", tables)


# ---------------------------------------------------------------------------------------------
# A small model with XLM-R's settings
# ---------------------------------------------------------------------------------------------


def train_model() -> None:
    """Trains a unigram model on texts of this project, with XLM-R's special pieces."""
    words = [word for text in WRITTEN_TEXTS for word in re.split(r"[\s\x00\ue000]+", text) if word]
    # Pairs of words in a fixed order, so that counts differ and longer pieces are worth having.
    sentences = [
        f"{words[i]} {words[(i * step + step) % len(words)]}"
        for step in range(1, 30)
        for i in range(len(words))
    ]
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as rules:
        rules.writelines(normalization_rules())
        rules.flush()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type="unigram",
            vocab_size=900,
            hard_vocab_limit=False,
            character_coverage=0.98,
            normalization_rule_tsv=rules.name,
            num_threads=1,
            minloglevel=2,
        )
    path = GOLDEN / "xlm_roberta_small.model.gz"
    path.write_bytes(gzip.compress(model.getvalue(), mtime=0))
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    print(f"{path}: {path.stat().st_size} bytes, {processor.get_piece_size()} pieces")


def normalization_rules() -> Iterable[str]:
    """Yields NFKC up to U+33FF and of width forms, and what XLM-R's nmt_nfkc does with controls.

    XLM-R's own rules have all of NFKC, three times what the rest of this model takes.
    """
    removed = {*range(1, 9), 0xB, *range(0xE, 0x20), 0x7F, 0x8F, 0x9F}
    spaces = {9, 10, 12, 13, 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0xFEFF, 0xFFFD}
    for code in [*range(1, 0x3400), *range(0xFEFF, 0x10000)]:
        char = chr(code)
        composed = unicodedata.normalize("NFKC", char)
        decomposed = unicodedata.normalize("NFD", char)
        if code in removed | spaces:
            yield f"{code:X}\t{'20' if code in spaces else ''}\n"
        elif composed != char:
            yield f"{code:X}\t{' '.join(f'{ord(c):X}' for c in composed)}\n"
        elif decomposed != char:
            yield f"{' '.join(f'{ord(c):X}' for c in decomposed)}\t{code:X}\n"


# ---------------------------------------------------------------------------------------------
# Reference ids
# ---------------------------------------------------------------------------------------------

Encoder = Callable[[str], list[int]]


def write_golden(albert_code: str) -> None:
    """Writes the checked-in answers of the references."""
    if sentencepiece.__version__ != "0.2.1":
        sys.exit(f"Run this with sentencepiece 0.2.1, not {sentencepiece.__version__}.")
    import transformers

    original = import_albert(albert_code)
    processor = sentencepiece.SentencePieceProcessor(
        str(SHARED_DATA / "vocab" / "albert" / "spiece.model")
    )
    model = gzip.decompress((GOLDEN / "xlm_roberta_small.model.gz").read_bytes())

    def albert(text: str, lowercase: bool = True) -> list[int]:
        return original.encode_ids(processor, original.preprocess_text(text, lower=lowercase))

    library, hugging_face = library_encoder(model), hugging_face_encoder(model)
    references = {
        "versions": {
            "sentencepiece": sentencepiece.__version__,
            "transformers": transformers.__version__,
            "unicode": unicodedata.unidata_version,
        },
        "texts": WRITTEN_TEXTS,
        "contexts": CONTEXTS,
        "cleaning_options": CLEANING,
        "cleaning": {
            name: [
                text_samples.checksum([clean(original, context_text(page), options)])
                for page in range(text_samples.NUM_PAGES)
            ]
            for name, options in CLEANING.items()
        },
        "albert": answers(albert),
        "albert_cased": answers(lambda text: albert(text, lowercase=False)),
        "xlm_roberta": answers(library),
        "deviating": {
            text: {"why": why, "library": library(text), "hugging_face": hugging_face(text)}
            for text, why in DEVIATING_TEXTS.items()
        },
        "special_tokens": {
            text: hugging_face(text) for text in WRITTEN_TEXTS if re.search("<[a-z/]+>", text)
        },
    }
    write_answers("sentencepiece.json.gz", references)


def write_xlnet() -> None:
    """Writes what transformers 4's XLNetTokenizer answers, cased."""
    from transformers import XLNetTokenizer

    model = (SHARED_DATA / "vocab" / "albert" / "spiece.model").read_bytes()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "spiece.model")
        path.write_bytes(text_samples.with_xlnet_tokens(model))
        tokenizer = XLNetTokenizer(str(path))

    def encode(text: str) -> list[int]:
        # Not `tokenize`, which looks for special tokens first.
        return tokenizer.convert_tokens_to_ids(tokenizer._tokenize(text))

    write_answers("xlnet.json.gz", answers(encode))


def write_camembert() -> None:
    """Writes what transformers 4's CamembertTokenizer answers, with special tokens in texts."""
    from transformers import CamembertTokenizer

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "sentencepiece.bpe.model")
        path.write_bytes(gzip.decompress((GOLDEN / "xlm_roberta_small.model.gz").read_bytes()))
        tokenizer = CamembertTokenizer(str(path))

    special = re.compile("(<s>|<pad>|</s>|<unk>|<mask>)")

    def encode(text: str) -> list[int]:
        # Not `tokenize`, which passes over spaces beside special tokens in its own way.
        tokens: list[str] = []
        for part in special.split(text.replace("\x85", " ")):
            tokens += [part] if special.fullmatch(part) else tokenizer._tokenize(part)
        return tokenizer.convert_tokens_to_ids(tokens)

    write_answers("camembert.json.gz", answers(encode))


def context_text(page: int) -> str:
    """Returns every code point of a page in CONTEXTS."""
    codes = range(page * text_samples.PAGE, (page + 1) * text_samples.PAGE)
    return "\n".join(CONTEXTS.format(chr(c)) for c in codes if not 0xD800 <= c < 0xE000)


def answers(encode: Encoder) -> dict[str, object]:
    """Returns ids of the written texts, and checksums of all others."""
    pages = map(text_samples.page_text, range(text_samples.NUM_PAGES))
    return {
        "written": [encode(text) for text in WRITTEN_TEXTS],
        "pages": [text_samples.checksum([encode(text)]) for text in pages],
        "random": text_samples.group_checksums(
            [encode(text) for text in text_samples.random_texts()]
        ),
        "corpora": {
            name: text_samples.checksum(encode(text) for text in texts)
            for name, texts in text_samples.corpora(SHARED_DATA)
        },
    }


def import_albert(path: str) -> types.ModuleType:
    """Imports Google's tokenization.py; its tokenizers need nothing of TensorFlow."""
    import six

    for name in ("tensorflow", "tensorflow.compat", "tensorflow.compat.v1", "tensorflow_hub"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["tensorflow.compat"].v1 = sys.modules["tensorflow.compat.v1"]
    sys.modules["six"] = six
    spec = importlib.util.spec_from_file_location("albert_tokenization", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def clean(original: types.ModuleType, text: str, options: dict[str, bool]) -> str:
    """Runs preprocess_text; where accents are kept, which it cannot do, Python's own lower()."""
    if options["keep_accents"]:
        text = " ".join(text.split())
        return text.lower() if options["lowercase"] else text
    return original.preprocess_text(text, lower=options["lowercase"])


def library_encoder(model: bytes) -> Encoder:
    """Returns the SentencePiece library's ids in XLM-R's numbering.

    Special tokens are cut out first and U+0085 is a space, as Hugging Face has it.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    special = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    special["<mask>"] = processor.get_piece_size() + 1
    pattern = re.compile("(" + "|".join(special) + ")")

    def encode(text: str) -> list[int]:
        ids: list[int] = []
        for part in pattern.split(text.replace("\x85", " ")):
            if part in special:
                ids.append(special[part])
            else:
                ids += [
                    index + 1 if index else special["<unk>"] for index in processor.encode(part)
                ]
        return ids

    return encode


def hugging_face_encoder(model: bytes) -> Encoder:
    """Returns Hugging Face's fast tokenizer, as it is made from a model file."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "sentencepiece.bpe.model").write_bytes(model)
        backend = xlm_roberta(directory)
    return lambda text: ids(backend, [text])[0]


if __name__ == "__main__":
    commands = {"tables": write_tables, "model": train_model, "golden": write_golden}
    run(commands | {"xlnet": write_xlnet, "camembert": write_camembert})
