"""The families of this package, listed by hand; a test holds the list against the files."""

from bert_zoo.families import (
    albert,
    bert,
    camembert,
    deberta,
    deberta_v2,
    distilbert,
    electra,
    gpt,
    gpt2,
    modernbert,
    mpnet,
    multilingual_minilm,
    roberta,
    spanbert,
    transformer_xl,
    xlm,
    xlm_roberta,
    xlnet,
)

FAMILIES = (
    # The first one, which stands where none is named.
    bert.FAMILY,
    multilingual_minilm.FAMILY,
    roberta.FAMILY,
    xlm_roberta.FAMILY,
    camembert.FAMILY,
    albert.FAMILY,
    spanbert.FAMILY,
    distilbert.FAMILY,
    mpnet.FAMILY,
    electra.FAMILY,
    deberta.FAMILY,
    deberta_v2.FAMILY,
    xlm.FAMILY,
    gpt.FAMILY,
    gpt2.FAMILY,
    modernbert.FAMILY,
    transformer_xl.FAMILY,
    xlnet.FAMILY,
)
