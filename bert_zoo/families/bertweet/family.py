"""BERTweet (Nguyen et al. 2020, arXiv:2005.10200): RoBERTa for normalised tweets."""

from dataclasses import replace

from bert_zoo.families.bert.checkpoints import BASE
from bert_zoo.families.bertweet.vocabulary import read_tweet_bpe
from bert_zoo.families.roberta import family as roberta
from bert_zoo.family import HF, Checkpoint, TextSpec
from bert_zoo.text.format import TextFormat
from bert_zoo.text.layout import ROBERTA

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
