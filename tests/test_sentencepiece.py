import gzip
import json
from pathlib import Path

import pytest
import tensorflow as tf
import text_samples
from helpers import assert_refused, ids_and_spans, ids_in_rust, slow_but, small_sentencepiece

from bert_zoo.registry import registry
from bert_zoo.text import tokenizer_from_dir
from bert_zoo.text.normalizer import TextCleaner, replacements
from bert_zoo.text.sentencepiece import SentencePieceTokenizer
from bert_zoo.text.vocabulary_files import BPE, read_sentencepiece_model

ROOT = Path(__file__).resolve().parent.parent
SHARED_DATA = ROOT.parent / "shared" / "data"
GOLDEN = ROOT / "tests" / "golden" / "text"
ALBERT_MODEL = SHARED_DATA / "vocab" / "albert" / "spiece.model"
needs_shared_data = pytest.mark.skipif(
    not ALBERT_MODEL.is_file(), reason="needs the corpora and vocabularies in ../shared/data"
)
ALBERT_TEXTS = ["Hello  World", "", "Ünïcode 1, 2", "[MASK]", "\u3000", "in 1999, 2, x1,"]
ALBERT_IDS = [
    *([10975, 126], [], [28010, 137, 15, 172], [636, 23265, 500], []),
    [19, 1247, 15, 172, 15, 993, 165, 15],
]
XLM_TEXTS = ["Paris is<mask>.", "", "été\x00 中", "hello", b"\xff<s>"]


SCHEME = {
    name: family.text.options["scheme"]
    for name, family in registry().families.items()
    if "scheme" in family.text.options
}


@pytest.fixture(scope="module")
def references():
    found = json.loads(gzip.decompress((GOLDEN / "sentencepiece.json.gz").read_bytes()))
    others = {
        name: json.loads(gzip.decompress((GOLDEN / f"{name}.json.gz").read_bytes()))
        for name in ("camembert", "xlnet")
    }
    return found | others


@pytest.fixture(scope="module")
def xlm_roberta():
    return SentencePieceTokenizer(small_sentencepiece(), SCHEME["xlm_roberta"])


@pytest.fixture(scope="module")
def albert():
    if not ALBERT_MODEL.is_file():
        pytest.skip("needs the vocabularies in ../shared/data")
    return SentencePieceTokenizer.from_file(ALBERT_MODEL, SCHEME["albert"])


def roles_of(tokenizer):
    return tuple(getattr(tokenizer, f"{role}_id") for role in "pad unk cls sep mask".split())


# --- Ids equal the references' ---


def test_special_tokens_have_the_numbers_of_the_originals(xlm_roberta, references):
    size = xlm_roberta.vocab_size
    assert xlm_roberta.vocabulary[:4] == ("<s>", "<pad>", "</s>", "<unk>")
    assert roles_of(xlm_roberta) == (1, 3, 0, 2, size - 1)
    assert xlm_roberta.id_to_token(size - 1) == "<mask>"

    camembert = SentencePieceTokenizer(small_sentencepiece(), SCHEME["camembert"])
    texts = references["texts"][:20]
    assert camembert(texts).to_list() == references["camembert"]["written"][:20]
    assert roles_of(camembert)[:4] == (1, 3, 5, 6)


# The planes above the first two hold ideographs and little else.
PAGES = [
    pytest.param(range(128), id="planes 0 and 1"),
    pytest.param(range(128, text_samples.NUM_PAGES), id="planes 2 to 16", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("pages", PAGES)
@pytest.mark.parametrize("name", ["albert", "cased", "accents"])
def test_every_code_point_is_cleaned_as_python_does(name, pages, references):
    """Also around capital sigmas, whose lower case depends on what stands before and after."""
    clean = TextCleaner(
        remove_space=True,
        rewrite_quotes=False,
        **references["cleaning_options"][name],
    )
    clean = tf.function(clean, [tf.TensorSpec([None], tf.string)], autograph=False)
    context, expected, different = references["contexts"], references["cleaning"][name], []
    for page in pages:
        codes = range(page * text_samples.PAGE, (page + 1) * text_samples.PAGE)
        text = "\n".join(context.format(chr(c)) for c in codes if not 0xD800 <= c < 0xE000)
        result = clean(tf.constant([text])).numpy()[0].decode()
        if text_samples.checksum([result]) != expected[page]:
            different.append(page)
    assert different == [], "pages of 1024 code points that are cleaned otherwise"


def test_the_table_of_characters_does_not_depend_on_pythons_unicode():
    """The checksum is of Python 3.11; 3.12 and later have newer Unicode data."""
    found = replacements(keep_accents=False, lowercase=True)
    assert text_samples.checksum([[code, *codes] for code, codes in found.items()]) == 2815016004


def test_texts_on_which_hugging_face_differs_follow_the_library(xlm_roberta, references):
    """The list of known differences; the golden file tells the reason of each."""
    for text, answers in references["deviating"].items():
        assert answers["hugging_face"] != answers["library"], text
        assert xlm_roberta([text]).to_list() == [answers["library"]], text


def test_special_tokens_in_texts_are_hugging_faces(xlm_roberta, references):
    texts = list(references["special_tokens"])
    assert len(texts) >= 3
    for text, row in zip(texts, xlm_roberta(texts).to_list(), strict=True):
        assert row == references["special_tokens"][text], text


# --- Blanks, line ends and special tokens in odd places ---


BLANKS = json.loads(gzip.decompress((GOLDEN / "blanks.json.gz").read_bytes()))
del BLANKS["versions"]


def vocabulary_of(family):
    return ROOT / "tests" / "golden" / family / "encoder"


def assert_same(texts, found, wanted):
    for text, row, reference in zip(texts, found, wanted, strict=True):
        assert row == reference, repr(text)


def test_every_way_to_read_a_model_has_answers():
    ways = {n: (f.text.read, f.text.options) for n, f in registry().families.items()}
    answered = [ways[name] for name in BLANKS]
    models = [*ROOT.glob("tests/golden/*/encoder/*.model")]
    assert models and all(ways[path.parent.parent.name] in answered for path in models)


@pytest.mark.parametrize("family", slow_but(BLANKS, "bigbird", "deberta_v2"))
def test_blanks_are_read_as_by_the_original(family):
    """SentencePiece drops blanks at both ends, also of the parts between special tokens, and counts runs as one."""
    answers = BLANKS[family]
    tokenizer = tokenizer_from_dir(vocabulary_of(family), family, special_tokens_in_text=True)
    ids = tokenizer(answers["texts"]).to_list()
    pieces = [[*map(tokenizer.id_to_token, row)] for row in ids]
    assert_same(answers["texts"], pieces, answers["library"])
    assert_same(answers["texts"], ids_in_rust(tokenizer, answers["texts"]), ids)


@pytest.mark.parametrize("family", slow_but(BLANKS, "bigbird", "deberta_v2"))
def test_blanks_are_read_as_the_tokenizer_json_of_transformers_says(family, tmp_path):
    answers = BLANKS[family]
    for name, content in answers["files"].items():
        (tmp_path / name).write_text(json.dumps(content), "utf-8")
    tokenizer = tokenizer_from_dir(tmp_path, family)
    texts, wanted = answers["texts"], answers["transformers"]
    assert_same(texts, tokenizer(texts).to_list(), wanted)
    assert_same(texts, ids_in_rust(tokenizer, texts), wanted)
    tokenizer.save(tmp_path / "saved")
    assert_same(texts, tokenizer_from_dir(tmp_path / "saved", family)(texts).to_list(), wanted)


def test_a_blank_at_the_end_is_a_token_of_bigbirds_tokenizer_json_alone(tmp_path):
    answers = BLANKS["bigbird"]
    for name, content in answers["files"].items():
        (tmp_path / name).write_text(json.dumps(content), "utf-8")
    theirs = tokenizer_from_dir(tmp_path, "bigbird")
    ours = tokenizer_from_dir(vocabulary_of("bigbird"), "bigbird", special_tokens_in_text=True)
    texts = ["the cat  ", "the [SEP] cat ", " "]
    the, cat, sep, blank = (theirs.token_to_id(each) for each in ("▁the", "▁cat", "[SEP]", "▁"))
    ids, spans = ids_and_spans(theirs, texts)
    assert ids == [[the, cat, blank], [the, blank, sep, cat, blank], [blank]]
    assert ours(texts).to_list() == [[the, cat], [the, sep, cat], []]
    second = [(0, 3), (3, 4), (4, 9), (10, 13), (13, 14)]
    assert spans == [[(0, 3), (4, 7), (8, 9)], second, [(0, 1)]]


def test_a_blank_that_the_models_rules_make_counts_as_one():
    tokenizer = SentencePieceTokenizer(
        small_sentencepiece(), SCHEME["xlm_roberta"], blank_at_end=True
    )
    (short, *rows) = tokenizer(
        ["Paris", "Paris ", "Paris\u3000", "Paris\t", " Paris\u200b"]
    ).to_list()
    assert rows == [[*short, tokenizer.token_to_id("▁")]] * 4


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("drops", [True, False])
def test_a_models_own_rule_for_blanks_holds_without_tensorflow(begins, drops):
    model = read_sentencepiece_model(small_sentencepiece())
    model.before.begins_with_blank, model.before.drops_blanks = begins, drops
    tokenizer = SentencePieceTokenizer(model.SerializeToString(), SCHEME["xlm_roberta"])
    texts = ["Paris  is", "  Paris", " Paris ", "", "  ", "is\n \nParis<mask> is"]
    assert_same(texts, ids_in_rust(tokenizer, texts), tokenizer(texts).to_list())
    if (begins, drops) != (True, True):
        plain = SentencePieceTokenizer(small_sentencepiece(), SCHEME["xlm_roberta"])
        assert tokenizer(texts).to_list() != plain(texts).to_list()


@pytest.mark.parametrize(("name", "value"), [("kind", BPE), ("ends_with_blank", True)])
def test_models_that_hugging_faces_library_reads_otherwise_have_no_tokenizer_json(name, value):
    model = read_sentencepiece_model(small_sentencepiece())
    setattr(model.trainer, name, value)
    tokenizer = SentencePieceTokenizer(model.SerializeToString(), SCHEME["xlm_roberta"])
    assert tokenizer.serialized() is None


def test_white_space_is_pythons_or_unicodes():
    """U+001C to U+001F are white space in Python only."""
    text = "a\x1cb \x85\u3000c\x1f"
    assert cleaned(text, remove_space=True) == "a b c"
    assert cleaned(text, remove_space=True, hugging_face_rules=True) == "a\x1cb c\x1f"


# --- Options ---


def cleaned(text, **options):
    off = dict.fromkeys(["rewrite_quotes", "remove_space", "lowercase"], False)
    clean = TextCleaner(**{**off, "keep_accents": True, **options})
    return clean(tf.constant([text])).numpy()[0].decode()


@pytest.mark.parametrize(
    ("options", "text", "wanted"),
    [
        ({}, " ``É''\x85 Σ ", " ``É''\x85 Σ "),
        ({"rewrite_quotes": True}, "``a'' 'b' '''", "\"a\" 'b' \"'"),
        ({"remove_space": True}, "\x1ca \u3000\x85 b\n", "a b"),
        ({"keep_accents": False}, "É ﬁ\u0301", "E fi"),
        ({"lowercase": True}, "ÉΣ İ", "éς i\u0307"),
        ({"spaces": "\x85\n"}, "a\x85b\nc", "a b c"),
    ],
)
def test_each_option_is_one_step(options, text, wanted):
    assert cleaned(text, **options) == wanted


def test_quotes_are_rewritten_on_request(albert):
    rewriting = SentencePieceTokenizer.from_file(
        ALBERT_MODEL, SCHEME["albert"], rewrite_quotes=True
    )
    assert rewriting(["``so'', he said"]).to_list() == albert(['"so", he said']).to_list()
    assert rewriting(["``so''"]).to_list() != albert(["``so''"]).to_list()


def test_special_tokens_in_albert_texts_are_text_unless_asked_for(albert):
    finding = SentencePieceTokenizer.from_file(
        ALBERT_MODEL, SCHEME["albert"], special_tokens_in_text=True
    )
    assert albert.mask_id not in albert(["paris is [MASK]."]).to_list()[0]
    paris, dot = albert(["paris is", "."]).to_list()
    rows = finding(["Paris is [MASK].", "paris is", "[SEP][MASK]", "", b"\xff[MASK]"]).to_list()
    assert rows == [[*paris, 4, *dot], paris, [3, 4], [], [4]]


def test_digits_before_a_comma_become_a_word_of_their_own(albert):
    assert "▁1999," in albert.vocabulary
    assert albert(ALBERT_TEXTS).to_list() == ALBERT_IDS


# --- Where it runs ---


def test_it_outlives_tensorflows_cleared_kernels():
    tokenizer = SentencePieceTokenizer(small_sentencepiece(), SCHEME["xlm_roberta"])
    traced = tf.function(lambda texts: tokenizer(texts))
    texts = tf.constant(XLM_TEXTS)
    wanted = traced(texts).to_list()
    tf.random.set_seed(1)  # which clears them
    assert traced(texts).to_list() == tokenizer(texts).to_list() == wanted
    assert (
        SentencePieceTokenizer(small_sentencepiece(), SCHEME["xlm_roberta"])(texts).to_list()
        == wanted
    )


def test_it_may_be_made_while_a_function_is_traced(xlm_roberta):
    made = []

    @tf.function
    def traced(texts):
        if not made:
            made.append(SentencePieceTokenizer(small_sentencepiece(), SCHEME["xlm_roberta"]))
        return made[0](texts)

    assert traced(tf.constant(XLM_TEXTS)).to_list() == xlm_roberta(XLM_TEXTS).to_list()


# --- Vocabulary, detokenize, files ---


def test_albert_keeps_the_models_numbering(albert):
    assert albert.vocab_size == 30000
    assert roles_of(albert) == (0, 1, 2, 3, 4)
    assert albert.vocabulary[:6] == ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "(")


def test_detokenize_joins_pieces_and_leaves_the_frame_out(xlm_roberta):
    words = xlm_roberta(["La vie est belle<mask>.", ""]).to_list()
    framed = tf.ragged.constant([[0, *words[0], 2, 1], [0, 2]], dtype=tf.int64)
    assert xlm_roberta.detokenize(framed).numpy().tolist() == [b"La vie est belle <mask> .", b""]


@pytest.mark.parametrize("family", ["albert", "xlm_roberta"])
def test_a_saved_tokenizer_is_written_under_the_names_of_its_family(family, tmp_path):
    if family == "albert" and not ALBERT_MODEL.is_file():
        pytest.skip("needs the vocabularies in ../shared/data")
    model = small_sentencepiece() if family == "xlm_roberta" else ALBERT_MODEL.read_bytes()
    tokenizer = SentencePieceTokenizer(model, SCHEME[family], rewrite_quotes=True)
    tokenizer.save(tmp_path / "new")
    config = json.loads((tmp_path / "new" / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == SCHEME[family].tokenizer_class
    assert config["do_lower_case"] is (family == "albert")
    assert config["mask_token"] == tokenizer.id_to_token(tokenizer.mask_id)
    options = tokenizer.get_config()
    assert json.loads(json.dumps(options)) == options
    read = SentencePieceTokenizer.from_file(
        tmp_path / "new" / SCHEME[family].model_file, **{**options, "scheme": SCHEME[family]}
    )
    assert read.get_config() == options and read.vocabulary == tokenizer.vocabulary


# --- Bad input ---


RULES = b"\0X\0\0" + b"\0\x84\0\0"
NO_MODEL = "bytes are not a SentencePiece model.*again"


# With most of the later ones, tensorflow_text 2.21 ends the process.
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda model: b"", f"These 0 {NO_MODEL}"),
        (lambda model: b"[PAD]\n[UNK]\n", f"These 12 {NO_MODEL}"),
        (lambda model: b"version https://git-lfs.github.com/spec/v1\n", NO_MODEL),
        (lambda model: b"\n\x00", NO_MODEL),
        (lambda model: b"\x08\x01", NO_MODEL),
        (lambda model: model[: len(model) // 2], ""),
        (lambda model: model + b"\n\x08\n\x01\0\x15\0\0\0\0", r"a piece is b'\\x00'"),
        (lambda model: model + b"\n\x08\n\x01a\x15\0\0\xc0\x7f", "with the score nan"),
        (lambda model: model + b"\n\x08\n\x01\xff\x15\0\0\0\0", "pieces are UTF-8"),
        # The rules: the table's size, then its units, the first of which says where to go on.
        (
            lambda model: model.replace(RULES, RULES[:4] + b"\0\xfc\xff\x7f"),
            "point outside their",
        ),
        (lambda model: model.replace(RULES[:4], b"\x01X\0\0"), "have no complete table"),
        (
            lambda model: model.replace(RULES[:4], b"\0\xff\xff\0"),
            "have no complete table",
        ),
    ],
)
def test_a_damaged_model_is_refused_with_the_files_name(damage, message, tmp_path):
    damaged = damage(small_sentencepiece())
    assert damaged != small_sentencepiece()
    path = tmp_path / "broken.model"
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=rf"broken\.model: .*{message}"):
        SentencePieceTokenizer.from_file(path, SCHEME["xlm_roberta"])


def test_a_model_of_another_family_is_refused(tmp_path):
    (tmp_path / "small.model").write_bytes(small_sentencepiece())
    for path, family, words in (
        (tmp_path / "absent.model", "albert", "no file | absent.model | spiece.model"),
        (tmp_path / "small.model", "albert", "small.model: | lacks the padding token '<pad>'"),
        (ALBERT_MODEL, "xlm_roberta", "spiece.model: | begins with | '<pad>' | '</s>'"),
    ):
        if path != ALBERT_MODEL or ALBERT_MODEL.is_file():
            assert_refused(lambda: SentencePieceTokenizer.from_file(path, SCHEME[family]), words)  # noqa: B023
