"""fast.ai's tokenizer, as far as it can be followed in a graph."""

from collections.abc import Sequence

from bert_zoo.families.awd_lstm import NEWLINE
from bert_zoo.graph import tf
from bert_zoo.text.batches import as_utf8, replaced, split_at_white_space
from bert_zoo.text.normalizer import TextCleaner
from bert_zoo.text.vocabulary_files import first_known
from bert_zoo.text.word_level import WordLevelTokenizer

# HTML's escapes, and WikiText's spelling of numbers and compounds -> what they mean.
_REPAIRS = (
    ("#39;|quot;", "'"),
    ("amp;", "&"),
    ("#146;", "'"),
    ("nbsp;", " "),
    ("#36;", "$"),
    (r"\\n|<br />", "\n"),
    (r"\\\\\"", '"'),
    (r" @\.@ ", "."),
    (" @-@ ", "-"),
    (r"\.\.\.", " …"),
    (r"([/#\\])", r" \1 "),
)
# Boundaries between words other than white space, for lower-cased text.
_CUTS = (
    (r"([\"“”()\[\]{}<>,;:!?…«»=+*~|])", r" \1 "),
    # Not within numbers such as 10,000 and 7:30.
    (r"(\d) ([,:]) (\d)", r"\1\2\3"),
    (r"(\w)n['’]t\b", r"\1 n't"),
    (r"['’](s|m|d|ll|re|ve)\b", r" '\1"),
    (r"(^|\s)(['‘’])", r"\1\2 "),
    (r"([^\s.])(['’])(\s|$)", r"\1 \2\3"),
    # The last full stop of a text or sentence, but not in an abbreviation that contains others.
    (r"([^\s.]{2})(\.)(\s*(?:\n|$)|\s+(?:xx|t_up)|\s+['\")\]])", r"\1 \2\3"),
    ("'( )(s|m|d|ll|re|ve) ", r"'\2 "),
)
# fast.ai's special tokens: the library's, versions 1 and 2, and the earlier program's.
_UNKNOWN, _PADDING = ("xxunk", "_unk_", "<unk>"), ("xxpad", "_pad_", "<pad>")
_BEGIN, _CAPITALS, _CAPITAL = ("xxbos", "xbos"), ("xxup", "t_up"), ("xxmaj",)


class FastAITokenizer(WordLevelTokenizer):
    """Splits texts into lower-case words, with marks at the start of a text and before words that had capitals.
    fast.ai's library uses spaCy, which cannot run in a graph. Here rules split off punctuation, contractions and
    full stops; spaCy's exceptions ("cannot", "a.m.") are not split. Repeated characters and words are not marked
    (xxrep, xxwrep), and only the HTML escapes of the library's list are replaced. With `backwards`, ids go from a
    text's last token to its first. Source: fastai/fastai fastai/text/core.py; fastai courses/dl2/imdb_scripts,
    create_toks.py and fastai/text.py.
    """

    def __init__(self, vocabulary: Sequence[str], *, backwards: bool = False):
        known = list(vocabulary)
        self._begin, self._capitals, self._capital = (
            first_known(names, known) for names in (_BEGIN, _CAPITALS, _CAPITAL)
        )
        self._backwards = bool(backwards)
        super().__init__(
            vocabulary,
            unknown_token=first_known(_UNKNOWN, known),
            eos_token=first_known((NEWLINE,), known),
            eos_at="newlines" if NEWLINE in known else "never",
        )

    def get_config(self):
        return {"backwards": self._backwards}

    def _build(self) -> None:
        self._lowered = TextCleaner(keep_accents=True, lowercase=True)
        super()._build()

    def _ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        ids = super()._ids_of(texts)
        return tf.reverse(ids, [1]) if self._backwards else ids

    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        texts = self._with_eos(replaced(as_utf8(texts), _REPAIRS))
        words = split_at_white_space(texts)
        marked = words.values
        for mark, pattern in (
            (self._capitals, r"[A-Z][^a-z\s]+"),
            (self._capital, r"[A-Z][^A-Z\s]+"),
        ):
            if mark is not None:
                is_so = tf.strings.regex_full_match(words.values, pattern)
                marked = tf.where(is_so, tf.strings.join([f"{mark} ", words.values]), marked)
        texts = tf.strings.reduce_join(words.with_values(marked), axis=1, separator=" ")
        texts = replaced(self._lowered(texts), _CUTS)
        begin = "" if self._begin is None else f"{self._begin} "
        return split_at_white_space(tf.strings.join([begin, texts]))

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        return super()._join(tf.reverse(ids, [1]) if self._backwards else ids)

    def _joined(self, tokens: list[str]) -> bytes:
        return super()._joined(tokens[::-1] if self._backwards else tokens)
