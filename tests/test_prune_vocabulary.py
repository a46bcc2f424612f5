"""Pruned vocabularies: the same tokens and outputs for texts of what is left, and no word unknown for it."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import TEXTS, assert_refused, ids_in_rust, load_case, refusals

import bert_zoo
from bert_zoo.data import messages
from bert_zoo.distillation import prune_vocabulary
from bert_zoo.distillation.vocabularies import smaller
from bert_zoo.text import AddedToken, SentencePieceTokenizer
from bert_zoo.text.vocabulary_files import BPE, read_sentencepiece_model
from bert_zoo.weights.bind import variables_of

ADDED = [AddedToken("<order>"), "e-mail"]
MODELS = ["bert_nano", "roberta_nano", "albert_nano"]
TRAINED_ON = messages.load("train")[0][:40]
HELD_OUT = [*messages.load("train")[0][40:], "zyxq <order> mathemagicians, 1,000 or 18, e-mail"]


def spelled(tokenizer, texts) -> list[list[str]]:
    return [[tokenizer.id_to_token(i) for i in row] for row in tokenizer(texts).to_list()]


@pytest.fixture(scope="module", params=MODELS)
def both(request):
    model = bert_zoo.add_tokens(bert_zoo.load(request.param, task="masked_lm"), ADDED)
    return model, prune_vocabulary(model, TRAINED_ON)


def test_texts_of_what_is_left_have_the_same_tokens_and_outputs(both):
    _, pruned = both
    before, after = (each.preprocessor.tokenizer for each in both)
    assert after.vocab_size == pruned.encoder.config.vocab_size < before.vocab_size / 3
    left = {*after.vocabulary}
    rows = [before.token_to_id(token) for token in after.vocabulary]
    assert rows == sorted(rows)
    texts = [
        text
        for text, tokens in zip(HELD_OUT, spelled(before, HELD_OUT), strict=True)
        if left.issuperset(tokens)
    ]
    assert len(texts) > 3
    texts = [*texts, *TRAINED_ON[:10], "<order> e-mail"]
    assert spelled(after, texts) == spelled(before, texts)
    given, own = (np.array(each(each.preprocessor(texts))) for each in both)
    np.testing.assert_allclose(own, given[..., rows], atol=1e-6, rtol=1e-6)


def test_words_that_are_not_left_become_pieces(both):
    before, after = (each.preprocessor.tokenizer for each in both)
    cut = 0
    for full, own in zip(spelled(before, HELD_OUT), spelled(after, HELD_OUT), strict=True):
        unknown = before.id_to_token(before.unk_id)
        assert own.count(unknown) == full.count(unknown)
        cut += own != full
    assert cut > 10
    own, given = (each.detokenized(each(HELD_OUT).to_list()) for each in (after, before))
    assert own == given


def test_special_and_added_tokens_stay(both):
    before, after = (each.preprocessor.tokenizer for each in both)
    contents = [{t.content: t for t in each.added_tokens.values()} for each in (before, after)]
    assert contents[0] == contents[1] and contents[1].keys() > {"<order>", "e-mail"}
    model, pruned = both
    assert pruned.encoder.config.pad_id == after.pad_id == pruned.preprocessor.packer.pad_id
    assert pruned.encoder.config.replace(
        vocab_size=model.encoder.config.vocab_size
    ) == model.encoder.config.replace(pad_id=after.pad_id)
    assert pruned.compiled == model.compiled


@pytest.mark.parametrize("format", ["bert_zoo", "hf"])
def test_it_is_saved_and_loaded(format, both, tmp_path):
    _, pruned = both
    bert_zoo.save(pruned, tmp_path, format=format)
    again = bert_zoo.load(tmp_path, task="masked_lm")
    texts = HELD_OUT[:5]
    assert again.preprocessor.tokenizer.vocabulary == pruned.preprocessor.tokenizer.vocabulary
    inputs = pruned.preprocessor(texts)
    np.testing.assert_array_equal(again.preprocessor(texts)["token_ids"], inputs["token_ids"])
    np.testing.assert_array_equal(again(inputs), pruned(inputs))


def test_in_rust_texts_have_the_same_tokens(both):
    pytest.importorskip("tokenizers")
    tokenizer = both[1].preprocessor.tokenizer
    texts = HELD_OUT[:-1]
    ids = ids_in_rust(tokenizer, texts)
    same = [a == b for a, b in zip(ids, tokenizer(texts).to_list(), strict=True)]
    # Segmentations of runs such as "000" that are equally likely may differ.
    assert np.mean(same) > (0.95 if isinstance(tokenizer, SentencePieceTokenizer) else 0.999)


def test_a_classifier_is_exported(tmp_path):
    model = bert_zoo.load("bert_nano", task="classification", labels=["no", "yes"])
    pruned = prune_vocabulary(model, TEXTS)
    assert pruned.labels == model.labels
    bert_zoo.export(pruned, tmp_path)
    serve = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    served = serve(text=tf.constant(TEXTS))["probabilities"]
    wanted = tf.nn.softmax(model.predict(TEXTS, verbose=0))
    np.testing.assert_allclose(served, wanted, atol=1e-6)


@pytest.mark.parametrize("kind", [1, BPE])
def test_sentencepiece_models_of_both_kinds_are_pruned(kind):
    tokenizer = bert_zoo.load("albert_nano").preprocessor.tokenizer
    model = read_sentencepiece_model(tokenizer._settings.model)
    model.trainer.kind = kind
    before = SentencePieceTokenizer(model.SerializeToString(), tokenizer._settings.scheme)
    kept = {token for row in spelled(before, TRAINED_ON) for token in row}
    after = smaller(before, kept | {t.content for t in before.added_tokens.values()})
    assert spelled(after, TRAINED_ON) == spelled(before, TRAINED_ON)
    left = {*after.vocabulary}
    texts = [t for t, s in zip(HELD_OUT, spelled(before, HELD_OUT), strict=True) if left >= {*s}]
    assert len(texts) > 3 and after.vocab_size < before.vocab_size / 3
    assert spelled(after, texts) == spelled(before, texts)


def test_positions_that_follow_padding_stay():
    model = load_case("roberta/masked_lm")
    pruned = prune_vocabulary(model, TEXTS)
    assert pruned.encoder.config.position_offset == model.encoder.config.position_offset
    path = "encoder/embeddings/position_embedding/embeddings"
    np.testing.assert_array_equal(variables_of(pruned)[path], variables_of(model)[path])


def test_rare_tokens_go_and_named_ones_stay(tmp_path):
    model = bert_zoo.load("bert_nano")
    kept = model.preprocessor.tokenizer.vocabulary[4000]
    file = tmp_path / "texts.txt"
    file.write_text("the house\nthe house\nthe city\n", "utf-8")
    pruned = prune_vocabulary(model, file, keep=[kept], min_count=2)
    left = {*pruned.preprocessor.tokenizer.vocabulary}
    assert {kept, "the", "house", "##a", "a"} <= left and "city" not in left


def prune(texts, name="bert_nano", **options):
    load = load_case if "/" in name else bert_zoo.load
    return lambda: prune_vocabulary(load(name), texts, **options)


@refusals(
    (prune("a text"), "one string; pass a list"),
    (prune(["a text"], min_count=0), "min_count is 0"),
    (prune([" "]), "texts have no tokens"),
    (prune(["a text"], keep=["nosuchtoken"]), "lacks the token 'nosuchtoken'"),
    (prune(["a text"], "xlm/classification"), "WordBpeTokenizer cannot be pruned"),
)
def test_what_cannot_be_pruned_is_refused(call, words):
    assert_refused(call, words)
