"""The families of this package, listed by hand. A test compares the list with the files."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bert_zoo.families import (
    albert,
    camembert,
    distilbert,
    electra,
    eurobert,
    gte,
    jina_v3,
    mpnet,
    multilingual_minilm,
    neobert,
    nomic_bert,
    roberta,
    roformer,
    spanbert,
    ultrabert,
    xlm_roberta,
)
from bert_zoo.families.awd_lstm import family as awd_lstm
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bertweet import family as bertweet
from bert_zoo.families.bigbird import family as bigbird
from bert_zoo.families.deberta import family as deberta
from bert_zoo.families.deberta import v2 as deberta_v2
from bert_zoo.families.elmo import family as elmo
from bert_zoo.families.ernie import family as ernie
from bert_zoo.families.esm2 import family as esm2
from bert_zoo.families.gpt import family as gpt
from bert_zoo.families.gpt import gpt2
from bert_zoo.families.jina_bert_v2 import family as jina_bert_v2
from bert_zoo.families.longformer import family as longformer
from bert_zoo.families.mobilebert import family as mobilebert
from bert_zoo.families.modernbert import family as modernbert
from bert_zoo.families.static import family as static
from bert_zoo.families.t5 import family as t5
from bert_zoo.families.transformer_xl import family as transformer_xl
from bert_zoo.families.xlm import family as xlm
from bert_zoo.families.xlnet import family as xlnet
from bert_zoo.family import Family
from bert_zoo.weights.formats import GLINER, HuggingFace, gliner_files
from bert_zoo.weights.table import entity_head, token_head


def _with_shared_heads(family: Family) -> Family:
    """A family whose further tasks read the head of another one, by the same class of transformers."""
    formats = {
        name: replace(
            fmt, classes=_shared(fmt.classes), supports_in_head=_shared(fmt.supports_in_head)
        )
        if isinstance(fmt, HuggingFace)
        else fmt
        for name, fmt in family.formats.items()
    }
    return replace(family, heads=_shared(family.heads), formats=formats)


def _shared(by_task: Mapping[str, Any]) -> dict[str, Any]:
    same = {task: by_task[other] for task, other in SAME_HEAD.items() if other in by_task}
    return {**by_task, **same}


# Task -> the task whose head it reads.
SAME_HEAD = {"sparse_embedding": "masked_lm"}
_PAGES = (
    # The first one is the default.
    bert.FAMILY,
    multilingual_minilm.FAMILY,
    roberta.FAMILY,
    xlm_roberta.FAMILY,
    camembert.FAMILY,
    bertweet.FAMILY,
    albert.FAMILY,
    spanbert.FAMILY,
    distilbert.FAMILY,
    mobilebert.FAMILY,
    mpnet.FAMILY,
    electra.FAMILY,
    ernie.FAMILY,
    deberta.FAMILY,
    deberta_v2.FAMILY,
    xlm.FAMILY,
    gpt.FAMILY,
    gpt2.FAMILY,
    modernbert.FAMILY,
    jina_bert_v2.FAMILY,
    jina_v3.FAMILY,
    roformer.FAMILY,
    neobert.FAMILY,
    esm2.FAMILY,
    nomic_bert.FAMILY,
    gte.FAMILY,
    gte.MULTILINGUAL_FAMILY,
    eurobert.FAMILY,
    ultrabert.FAMILY,
    longformer.FAMILY,
    bigbird.FAMILY,
    transformer_xl.FAMILY,
    xlnet.FAMILY,
    awd_lstm.FAMILY,
    t5.FAMILY,
    t5.MT5_FAMILY,
    t5.UMT5_FAMILY,
    t5.BYT5_FAMILY,
    elmo.FAMILY,
    static.FAMILY,
)


def _with_heads_on_tokens(family: Family) -> Family:
    """A family whose encoders also give a vector for each token, and find entities of named types."""
    formats = {**family.formats, GLINER: gliner_files(family.formats[HuggingFace.name])}
    family = family.with_head("late_interaction", token_head())
    return replace(family.with_head("entity_recognition", entity_head()), formats=formats)


# Encoders that transformers has too, which read rows of tokens.
FAMILIES = tuple(
    _with_heads_on_tokens(page)
    if "hf" in page.formats and "embedding" in page.tasks_without_head
    else page
    for page in map(_with_shared_heads, _PAGES)
)
