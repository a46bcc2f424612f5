"""A verb that a model does not have says which task has it."""

import pytest
from helpers import ONE_A_TASK, loaded, slow_but

from bert_zoo.models.base import TASKS_OF_VERBS, ZooModel, encoder_of
from bert_zoo.registry import registry


def test_every_task_that_users_call_has_its_verbs():
    assert TASKS_OF_VERBS["generate"] == ["causal_lm", "text_to_text"]
    assert {"embed", "classify", "fill_mask", "answer", "tag", "rank", "score"} <= {*TASKS_OF_VERBS}


@pytest.mark.parametrize("case", slow_but(ONE_A_TASK, "t5/encoder", "bert/regression"))
def test_a_verb_of_another_task_says_which_task_of_the_family_has_it(case):
    model = loaded(case)
    family = registry().families[encoder_of(model).family]  # BERT's of SpanBERT's own checkpoints
    for verb, tasks in TASKS_OF_VERBS.items():
        if model.task in tasks:
            assert callable(getattr(model, verb))
            continue
        assert not hasattr(model, verb) and getattr(model, verb, None) is None
        with pytest.raises(AttributeError) as error:
            getattr(model, verb)
        message = str(error.value)
        assert f"task {model.task!r} has no {verb}()" in message
        here = [task for task in tasks if task in family.tasks]
        assert all(f"task={task!r}" in message for task in here)
        assert here or f"the family {family.name} does not have" in message


def test_other_attributes_are_missing_as_before():
    class Broken(ZooModel):
        task = "regression"

        @property
        def value(self):
            raise AttributeError("the reason")

    with pytest.raises(AttributeError, match="'Broken' object has no attribute 'clasify'"):
        _ = Broken().clasify
    with pytest.raises(AttributeError, match="the reason"):
        _ = Broken().value
