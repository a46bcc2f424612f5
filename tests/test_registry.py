"""The registry: names, cards, and parameter counts of the models that they stand for."""

import functools
import re
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import assert_refused, first_config, of_layers, refusals, run_program, unallocated

import bert_zoo
from bert_zoo.family import HF, Archive, read_table, scores_of
from bert_zoo.registry import Registry, registry

ENTRIES = [(f, c) for f in registry().families.values() for c in f.checkpoints]
CHECKPOINTS = [
    pytest.param(family, checkpoint, id=checkpoint.full_name) for family, checkpoint in ENTRIES
]


@pytest.mark.parametrize(("family", "checkpoint"), CHECKPOINTS)
def test_parameters_equal_the_built_models(family, checkpoint):
    task = family.params_task if family.params_task in checkpoint.provides else "encoder"
    assert parameters(family, family.config(checkpoint), task) == checkpoint.params


def test_a_table_of_checkpoints_has_numbers_gaps_and_words_in_its_last_column():
    rows = read_table("""
        name   params     commit                                    scores
        small  1_234_567  -                                         1.50 - 2/3
        large  2          1234567890123456789012345678901234567890  -
    """)
    assert rows == [
        {"name": "small", "params": 1_234_567, "scores": "1.50 - 2/3"},
        {"name": "large", "params": 2, "commit": "1234567890" * 4},
    ]
    assert scores_of("abcd", rows[0]["scores"]) == {"a": 1.5, "c": "2/3"}
    with pytest.raises(ValueError, match="shorter"):
        read_table("name params\nsmall")


@functools.cache
def built_parameters(config, task: str, family: str) -> int:
    return unallocated(config, task, family).count_params()


def parameters(family, config, task: str) -> int:
    """Those of two layers, and of each further one, since a first and a last layer may differ."""
    two, three = (
        built_parameters(of_layers(config, layers), task, family.name) for layers in (2, 3)
    )
    return two + (config.num_layers - 2) * (three - two)


@pytest.mark.parametrize("family", registry().families.values(), ids=registry().families)
def test_parameters_are_counted_as_the_whole_model_has_them(family):
    config = first_config(family)
    task = family.params_task
    assert built_parameters(config, task, family.name) == parameters(family, config, task)


@pytest.mark.parametrize(("family", "checkpoint"), CHECKPOINTS)
def test_card_is_complete_and_what_is_pinned_is_a_commit_and_whole_hashes(family, checkpoint):
    assert checkpoint.licence and checkpoint.paper and checkpoint.sources
    assert "encoder" in checkpoint.provides
    assert checkpoint.provides <= set(family.tasks)
    with_labels = {"classification", "token_classification"} & checkpoint.provides
    assert bool(with_labels) == bool(checkpoint.labels)
    for source in checkpoint.sources:
        if isinstance(source, HF):
            assert source.revision == "main" or re.fullmatch("[0-9a-f]{40}", source.revision)
        known = source.sha256 if isinstance(source.sha256, dict) else {"": source.sha256}
        for digest in {**known, **getattr(source, "files", {})}.values():
            assert digest is None or re.fullmatch("[0-9a-f]{64}", digest)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("electra_base", "embedding_size", 768),
        ("modernbert_base", "classifier_dropout", 0.0),
        ("xlm_mlm_en_2048", "summary_first_dropout", 0.1),
        ("albert_base", "classifier_dropout_prob", 0.0),
    ],
)
def test_what_one_field_leaves_to_another_is_written_for_transformers(name, key, value):
    family, checkpoint = registry().resolve(name)
    config = family.config(checkpoint).replace(classifier_dropout=None)
    assert family.formats["hf"].codec.encode(config)[key] == value


def test_no_two_checkpoints_have_the_same_weights():
    """What is pinned was not copied to the wrong line."""
    sources = [source for _, checkpoint in ENTRIES for source in checkpoint.sources]
    hubs = [source for source in sources if isinstance(source, HF)]
    commits = [source.revision for source in hubs if source.revision != "main"]
    hashes = [source.sha256 for source in hubs if source.sha256]
    archives = [source.files for source in sources if isinstance(source, Archive) and source.files]
    data = [files["bert_model.ckpt.data-00000-of-00001"] for files in archives]
    for pins in (commits, hashes, [digest for digest in data if digest]):
        assert pins and len(set(pins)) == len(pins)


RELEASED = (
    """
bert_base bert_base_cased bert_base_chinese bert_base_multilingual_cased
bert_base_multilingual_uncased bert_base_uncased bert_large bert_large_cased bert_large_cased_wwm
bert_large_uncased bert_large_uncased_wwm bert_tiny bert_mini bert_small bert_medium minilm_l6
scibert scibert_cased scibert_uncased biobert biobert.v1.2 clinicalbert finbert
roberta_base roberta_large roberta_large_mnli distilroberta_base xlm_roberta_base xlm_roberta_large
albert_base albert_large albert_xlarge albert_xxlarge albert_base.v1 albert_large.v1
albert_xlarge.v1 albert_xxlarge.v1 albert_base_chinese albert_large_chinese albert_xlarge_chinese
albert_xxlarge_chinese spanbert_base spanbert_large spanbert_large.with_head spanbert_base.squad1.1
spanbert_base.squad2.0 spanbert_large.squad1.1 spanbert_large.squad2.0
xlnet_base xlnet_large
transformer_xl_wt103 transformer_xl_enwik8 transformer_xl_text8 transformer_xl_lm1b
""".split()
    + [f"bert_l{n}_h{h}" for n in (2, 4, 6, 8, 10, 12) for h in (128, 256, 512, 768)]
)


def test_a_checkpoint_is_listed_once_and_under_every_name_where_aliases_are_asked_for():
    names, all_names = bert_zoo.list_models(), bert_zoo.list_models(aliases=True)
    checkpoints = {bert_zoo.describe(name)["name"] for name in all_names}
    assert len(names) == len(checkpoints) < len(all_names) == len(set(all_names))
    assert set(RELEASED) <= set(all_names)
    assert "bert_base_uncased" in names and "bert_base" not in names


@pytest.mark.parametrize(
    ("pattern", "options", "names"),
    [
        ("bert_tin*", {}, "bert_tiny"),
        ("sci*", {}, "scibert scibert_cased"),
        ("sci*", {"aliases": True}, "scibert scibert_cased scibert_uncased"),
        # In natural order.
        ("bert_l*_h128", {}, " ".join(f"bert_l{n}_h128" for n in (2, 4, 6, 8, 10, 12))),
        ("nothing*", {}, ""),
        ("fin*", {"provides": "classification"}, "finbert"),
        ("fin*", {"provides": "masked_lm"}, ""),
        ("mini*", {"provides": "embedding"}, "minilm_l6"),
        ("bio*", {"provides": "masked_lm"}, "biobert.v1.2"),
    ],
)
def test_globs_and_what_is_provided_choose_names(pattern, options, names):
    assert bert_zoo.list_models(pattern, **options) == names.split()


def test_every_listed_name_is_described():
    for name in bert_zoo.list_models(aliases=True):
        card = bert_zoo.describe(name)
        assert card["parameters"] > 500_000
        assert str(card).startswith("name ")
    text = str(bert_zoo.describe("bert_tiny"))
    for part in "bert_l2_h128 4,385,920 Apache-2.0 1908.08962 hf://google/ masked_lm".split():
        assert part in text
    assert repr(bert_zoo.describe("bert_tiny")) == text


def test_aliases_and_tags_stand_for_their_checkpoint():
    resolve = registry().resolve
    assert resolve("bert_base")[1] is resolve("bert_base_uncased")[1]
    assert resolve("bert_tiny")[1] is resolve("bert_l2_h128")[1]
    assert resolve("biobert")[1] is resolve("biobert.v1.1")[1]
    assert resolve("biobert")[1] is not resolve("biobert.v1.2")[1]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("bert-base-uncased", "bert_base_uncased"),
        ("BERT_Large_Cased", "bert_large_cased"),
        ("sci_bert", "scibert"),
        ("biobert.v1.3", "biobert.v1.2"),
        ("bert_l2_h127", "bert_l2_h128"),
    ],
)
def test_unknown_name_gives_the_three_nearest(asked, meant):
    with pytest.raises(ValueError) as error:
        registry().resolve(asked)
    message = str(error.value)
    assert repr(asked) in message and repr(meant) in message and "list_models()" in message
    nearest = message.split("nearest names are ")[1].split(";")[0]
    assert len(nearest.split(", ")) == 3


@refusals(
    (
        lambda: bert_zoo.load("google-bert/bert-base-uncased"),
        "is 'bert_base_uncased': load('bert_base_uncased')",
    ),
    (lambda: bert_zoo.load("FacebookAI/roberta-base"), "is 'roberta_base': load('roberta_base')"),
    (lambda: bert_zoo.load("my-org/my-model"), "'hf://my-org/my-model'"),
)
def test_a_repository_answers_with_the_name_that_it_has_here(call, words):
    assert_refused(call, words, FileNotFoundError)


def one_checkpoint(*others, **changes):
    """The family of a checkpoint that is changed, with others of its own besides."""
    family, checkpoint = registry().resolve("bert_tiny")
    more = [replace(checkpoint, **other) for other in others]
    return replace(family, checkpoints=[replace(checkpoint, **changes), *more])


ALIAS = {"name": "other", "aliases": ["bert_l2_h128"]}
TAKEN = "'bert_l2_h128' already belongs to bert_l2_h128"


@refusals(
    (lambda: Registry([one_checkpoint({})]), TAKEN),
    (lambda: Registry([one_checkpoint(ALIAS)]), TAKEN),
    (lambda: Registry([one_checkpoint(formerly=["bert_tiny"])]), "'bert_tiny'"),
    (lambda: bert_zoo.list_models(provides="translation"), "'translation' | masked_lm"),
)
def test_what_is_no_name_of_its_own_is_refused(call, words):
    assert_refused(call, words, ValueError)


def test_former_name_still_loads_with_a_warning():
    changed = Registry([one_checkpoint(formerly=["bert_wee"])])
    with pytest.warns(DeprecationWarning, match=r"'bert_wee' is now called 'bert_l2_h128'"):
        assert changed.resolve("bert_wee")[1].name == "bert_l2_h128"
    assert "bert_wee" not in changed.names()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        changed.resolve("bert_tiny")


def test_families_are_the_files():
    import bert_zoo.families as families

    pages = Path(families.__file__).parent.rglob("*.py")
    declared = [re.findall(r"^\w*FAMILY = ", page.read_text(), re.M) for page in pages]
    assert len(families.FAMILIES) == sum(map(len, declared))


def test_listing_imports_neither_tensorflow_nor_keras():
    run_program(
        "-c",
        "import sys, bert_zoo\n"
        "assert bert_zoo.list_models() and dir(bert_zoo)\n"
        "assert str(bert_zoo.describe('bert_base'))\n"
        "heavy = {'tensorflow', 'keras', 'torch', 'jax', 'numpy.testing'} & set(sys.modules)\n"
        "assert not heavy, heavy\n",
    )


def test_no_attribute_that_does_not_exist():
    with pytest.raises(AttributeError, match="'laod'"):
        bert_zoo.laod  # noqa: B018
    assert {"load", "save", "export", "similarity", "describe", "list_models"} <= set(dir(bert_zoo))
