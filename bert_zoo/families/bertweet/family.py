"""BERTweet (Nguyen et al. 2020, arXiv:2005.10200): RoBERTa for normalised tweets."""

from dataclasses import replace
from typing import Any

from bert_zoo.config import ConfigError
from bert_zoo.error_text import shown
from bert_zoo.families import roberta
from bert_zoo.families.bert.cards import BASE
from bert_zoo.families.bertweet import FIRST_TOKENS
from bert_zoo.family import HF, Checkpoint, TextSpec
from bert_zoo.text.files import AddedToken, VocabularyFiles, read_named_tokens
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.numpy_packing import ROBERTA

MASK = "<mask>"


def read_tweet_bpe(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads vocab.txt and bpe.codes, each with a count in its last column, and settings; `overrides` overrule."""
    files.require("vocab.txt", "bpe.codes")
    vocabulary = [*FIRST_TOKENS]
    for number, line in enumerate(files.lines("vocab.txt"), start=1):
        token, separator, _ = line.strip().rpartition(" ")
        if not separator:
            raise ConfigError(
                f"{files.path('vocab.txt')}, line {number} is {shown(line)}; it must be a token and its "
                "count. Check that the directory belongs to BERTweet."
            )
        vocabulary.append(token)
    named = read_named_tokens(files)
    mask = named.special.get("mask_token", MASK)
    # transformers 5 writes bpe.codes without counts.
    pairs = (tuple(line.split()[:2]) for line in files.lines("bpe.codes"))
    arguments = {
        **named.special,
        "vocabulary": vocabulary,
        "added_tokens": [
            AddedToken(mask, special=True).as_config(),
            *named.added_to(vocabulary, files.directory),
        ],
        "merges": [pair for pair in pairs if len(pair) == 2],
        "normalization": files.json("tokenizer_config.json").take("normalization", bool, True),
        **overrides,
    }
    return TokenizerParts(
        "bert_zoo.families.bertweet.text:TweetBpeTokenizer", arguments, files.directory
    )


COVID = "bertweet_base, trained further on 23 million English tweets about COVID-19"

FAMILY = replace(
    roberta.FAMILY,
    name="bertweet",
    defaults=roberta.FAMILY.defaults | {"vocab_size": 64001, "max_positions": 130},
    pretraining_preset=None,
    formats={"hf": replace(roberta.FAMILY.formats["hf"], tokenizer_class="BertweetTokenizer")},
    text=TextFormat(read_tweet_bpe, layout=ROBERTA),
    checkpoints=[
        Checkpoint(
            name,
            BASE,
            sources=[HF(f"vinai/{repo}")],
            provides=frozenset({"encoder", "masked_lm"}),
            params=134_899_968,
            licence="MIT",
            paper="BERTweet: A pre-trained language model for English Tweets, arXiv:2005.10200",
            text=TextSpec(lowercase=None, max_length=128),
            note=note,
        )
        for name, repo, note in (
            ("bertweet_base", "bertweet-base", "Trained on 850 million English tweets."),
            ("bertweet_covid19_base_cased", "bertweet-covid19-base-cased", f"{COVID}."),
            (
                "bertweet_covid19_base_uncased",
                "bertweet-covid19-base-uncased",
                f"{COVID}, in lower case. Its tokenizer keeps case, as in transformers: lower-case texts first.",
            ),
        )
    ],
)
