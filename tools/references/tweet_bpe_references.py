"""Makes tests/golden/tweet_bpe: a small vocabulary of BERTweet's kind, and what transformers reads with it.

In the environment of `make_golden.py`, with the version of emoji that the models were trained with:

    golden-env/bin/pip install emoji==0.6.0
    golden-env/bin/python tools/references/tweet_bpe_references.py --data_dir ../shared/data

`texts.json.gz` has texts, how they are normalised, and their ids when they are and when they are not;
`checksums.npz` 16 bits of the CRC-32 of every line of tokenizer_texts.json.gz that is in `lines`, normalised.
"""

import gzip
import json
import pathlib
import random
import zlib

import emoji
import numpy as np
from absl import app, flags
from transformers import BertweetTokenizer
from word_merges import learn

_DATA_DIR = flags.DEFINE_string("data_dir", "../shared/data", "Real data with text/ in it.")
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", "tests/golden/tweet_bpe", "Directory that receives the files."
)
TWEETS = (
    "",
    "   ",
    "SC has first two presumptive cases, DHEC confirms https://t.co/aBc1?x=y&z… via @some_paper 😢",
    "RT @user_1: can't believe it's already 5 p.m. 😂😂😂😂😂 #MondayMood",
    "I'm sure they'll say we've won. He'd cannot, she ain't, they don't & you're not",
    "Tom &amp; Jerry &lt;3 &#39;quoted&#39; &hellip; &rsquo;tis &nbsp; &foo; &xi; &#x2764; &#150;!",
    "👍🏽 ❤️ ❤ 👩‍💻 🇺🇸 🥲 :-) :D <3 :'( 8) =P o_O :/ (: </3 :@ >:)",
    "mail me.now+tag@mail.example.co.uk or @x.com, foo.na@example.com a.b@c",
    "www.site.com WWW.SITE.COM/a site.org site.org/path?q=(a(b)c). HTTP://x.y/z) http:// httpx",
    ":@foo.com =@bar.co.uk/ x@foo.com foo.com/@me foo.com/a foo.comé fooé.com 1.foo.info. co.uk-",
    "call +1 (555) 123-4567 or 555 1234 or 5551234 at 10:30, 12/25, 3.5% of $1,000.00 -5 +7-",
    "Waaaaay toooo long!!!!!! no???? ...... . . . ..\n.. ---> <-- <<>> **** ____ ~~~~",
    "#tag #Tag_1 ##double #x'y-z #1 # tag re-use rock'n'roll the 90's 'quoted' co-op- -x",
    "at 5 a.m. or 6 a.m sharp, 7 p.m sharp; p.m. p . m . n 't won 't",
    "“Quoted” ‘text’ «texte» it’s don’t I’d … and… http://x.com/“a” x.com/‘b’",
    "<b>bold</b> <a href='x'> < b > {braces} [x](y) a|b a\\b `code` \"q\"",
    "中文没有空格。 日本語テキスト 한국어 문장 नमस्ते दुनिया ข้อความ שלום ١٢٣٤ ９９９",
    "ſite.com \u212aİT.com İ.co ı.com Straße.de naïve café e\u0301 \u0301x ² ½ Ⅷ",
    "line\nbreak\r\ntab\tnbsp\u00a0sep\u2028x\x1cy\x1fz\u200bw\ufeffv \x00 \ufffd",
    "\ufe0f p.m. \ufe0f\ufe0f ❤️great ☺️☺️☺️☺️☺️ ™ © ® ‼ ⁉ #️⃣ 1️⃣ *️⃣",
    "<mask> is a mask</s>, @<mask>: and <mask>.<pad>x <unk>",
    "&lt;mask&gt; &#55357; &#0; &#1114112; &#00065; &x41; &#X41; &#; &x; &;",
)
FRAGMENTS = (
    *("@", "@user", "@u_1:", "http://", "https://t.co/aB3", "www.", "x.com", "foo.na", "/", "//"),
    *(":@", ":-)", "=D", "8)", "<3", "</3", ":'(", "p.m.", "a.m", " p . m .", "can't", "cannot "),
    *("don't ", "ca n't", "I'm ", "it's ", "they'll ", "n 't ", "&amp;", "&lt;", "&#39;"),
    *("&hellip;", "#tag", "##x-y", "#", "RT ", "…", "’", "”", "😂", "😂😂😂😂", "👍🏽", "❤️"),
    *("👩\u200d💻", "🇺🇸", "🥲", "!!!!!", "....", ". .", "---", "->", "<b>", "555-1234"),
    *("(555) 123 4567", "12/25", "1,000", "$5", "a", "co", "uk", ".", "-", "'", "_", "é", "ſ"),
    *("中", "١٢٣", " ", "\n", "\xa0", "(", "(a(b)c)", ")", "]", "|", "*", "+", "me@x.com"),
    *("@x.com", "HTTP", "WWW", "\ufe0f", "hello"),
)


def mixed(number: int) -> list[str]:
    """Texts of fragments, the same ones every time."""
    rng = random.Random(0)
    return [
        "".join(
            rng.choice(FRAGMENTS) + " " * (rng.random() < 0.3) for _ in range(rng.randint(2, 9))
        )
        for _ in range(number)
    ]


def main(argv: list[str]) -> None:
    if emoji.__version__ != "0.6.0":
        raise SystemExit(f"This is made with emoji 0.6.0, and here is {emoji.__version__}.")
    path = pathlib.Path(_DATA_DIR.value) / "text/tokenizer_texts.json.gz"
    groups = json.loads(gzip.decompress(path.read_bytes()))
    lines = [*groups["udhr"], *groups["single32"], *groups["glue"][:200]]
    texts = [*TWEETS, *mixed(400)]
    output = pathlib.Path(_OUTPUT_DIR.value)
    output.mkdir(parents=True, exist_ok=True)
    files = (str(output / "vocab.txt"), str(output / "bpe.codes"))
    for file in files:
        pathlib.Path(file).write_text("x 1\n")
    normalize = BertweetTokenizer(*files).normalizeTweet

    # Of lone surrogates there is no UTF-8.
    normalized = [normalize(text).encode("utf-8", "replace").decode() for text in texts]
    words = " ".join([*normalized, *map(normalize, groups["glue"][:200])]).split()
    characters, merges = learn(words, merges=400, characters=300)
    # Of what merges make, a part is no token.
    made = ["".join(pair) for number, pair in enumerate(merges) if number % 7]
    tokens = [f"{symbol}@@".replace("</w>@@", "") for symbol in dict.fromkeys([*characters, *made])]
    (output / "vocab.txt").write_text("".join(f"{token} 1\n" for token in dict.fromkeys(tokens)))
    (output / "bpe.codes").write_text("".join(f"{left} {right} 1\n" for left, right in merges))
    by_option = {
        option: BertweetTokenizer(*files, normalization=option) for option in (True, False)
    }
    ids = {
        str(option).lower(): [tokenizer.convert_tokens_to_ids(tokenizer.tokenize(t)) for t in texts]
        for option, tokenizer in by_option.items()
    }
    content = json.dumps({"texts": texts, "normalized": normalized, "ids": ids})
    (output / "texts.json.gz").write_bytes(gzip.compress(content.encode(), mtime=0))
    sums = [zlib.crc32(normalize(line).encode()) & 0xFFFF for line in lines]
    np.savez_compressed(output / "checksums.npz", normalized=np.array(sums, np.uint16))


if __name__ == "__main__":
    app.run(main)
