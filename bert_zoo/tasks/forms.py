"""What the page of `bert_zoo demo` asks for, and how it is answered, for each task."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from bert_zoo.charts import folded, stacked


class Form(NamedTuple):
    """What a task's page asks for.

    Attributes:
        fields: labels of texts to type. Those that end in `LIST` take several texts, and in `OPTIONAL` perhaps none.
        answer: a function of a model, the values of the fields, and `no_answer_threshold`.
        examples: values of the fields. "{mask}" stands for the model's mask.
        columns: names of a table's columns of texts, of which the second may be ""; empty if the task predicts no tables.
    """

    fields: Sequence[str]
    answer: Callable[..., Any]
    examples: Sequence[Sequence[str]]
    columns: Sequence[str] = ()


LIST, OPTIONAL = ", one a line", " (for models of pairs)"


def _of_text(model: Any, text: str, second: str = "", **options: Any) -> Any:
    return model.printed_predictions([text], [second] if second else None)


def _of_question(model: Any, question: str, context: str, **options: Any) -> Any:
    return model.printed_predictions([question], context=context, **options)


def of_types(model: Any, text: str, types: list[str], **options: Any) -> Any:
    return model.tag([text], types)


def of_masks(model: Any, text: str, **options: Any) -> Any:
    return model.fill_mask(text)


def _of_choices(model: Any, prompt: str, choices: list[str], **options: Any) -> Any:
    return model.printed_predictions([prompt, *choices])


def _of_queries(model: Any, queries: list[str], documents: list[str], **options: Any) -> Markup:
    """The documents ranked for each query and, where the model can explain scores, what makes the best one."""
    found = []
    for query in queries:
        ranked = model.printed_predictions([query, *documents])
        parts = [ranked.chart()]
        if "explain" in model.verbs:
            why = model.explain(query, ranked[0].document).chart()
            parts.append(folded(f"Tokens that document {ranked[0].index} matches", why))
        found.append(stacked(parts, title=query))
    return stacked(found)


_MESSAGE = "I sent the lamp back two weeks ago. When do I get my money?"
_PASSAGE = (
    "Ada Lovelace wrote the first program in 1843. It computed Bernoulli numbers on the Analytical Engine, a machine "
    "that Charles Babbage designed and never finished."
)
_QUERIES = "How do I get my money back?\nWhere is my parcel?"
_DOCUMENTS = (
    "Refunds arrive within five working days.\nThe tracking number shows where your order is.\n"
    "We are open on Sundays."
)
_QUESTIONS = Form(
    ("Question", "Text with the answer"),
    _of_question,
    [("Who designed the Analytical Engine?", _PASSAGE)],
    ("question", "context"),
)
_TEXTS = Form(("Text", "Second text" + OPTIONAL), _of_text, [(_MESSAGE, "")], ("text", ""))
_PAIR = [("She opened the door.", "Nobody was there.")]
_MASKS = Form(["Text with masks"], of_masks, [["The capital of France is {mask}."]])
_SEARCH = Form(
    ("Queries" + LIST, "Documents" + LIST),
    _of_queries,
    [(_QUERIES, _DOCUMENTS)],
    ("query", "document"),
)
_CHOICES = [("It is raining, so I take", "my umbrella.\nmy sunglasses.")]
_GERMAN = [["translate English to German: The house is wonderful."]]
# By task. A checkpoint with the heads of several tasks is shown with the first of them.
FORMS: dict[str, Form] = {
    "classification": _TEXTS,
    "multi_label_classification": _TEXTS,
    "regression": _TEXTS,
    "token_classification": Form(
        ["Text"], _of_text, [["Ada Lovelace lived in London ."]], ["text"]
    ),
    "entity_recognition": Form(
        ("Text", "Types of entities" + LIST),
        of_types,
        [(_PASSAGE, "person\nmachine\nyear")],
        ["text"],
    ),
    "question_answering": _QUESTIONS,
    "beam_question_answering": _QUESTIONS,
    "multiple_choice": Form(("Prompt", "Choices" + LIST), _of_choices, _CHOICES),
    "masked_lm": _MASKS,
    "pretraining": _MASKS,
    "causal_lm": Form(["Beginning of a text"], _of_text, [["The history of the city"]]),
    "text_to_text": Form(["Text"], _of_text, _GERMAN, ["text"]),
    "reranking": _SEARCH,
    "embedding": _SEARCH,
    "sparse_embedding": _SEARCH,
    "late_interaction": _SEARCH,
    "hybrid_embedding": _SEARCH,
    "next_sentence_prediction": Form(
        ("First text", "Second text"), _of_text, _PAIR, ("text", "text_pair")
    ),
}
# Every family has one of these.
NEED_NO_HEAD = ("embedding", "causal_lm")
