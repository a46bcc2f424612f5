"""Tasks, one module or package each, with model, loss, metrics, prediction methods and served outputs."""

from bert_zoo.error_text import nearest
from bert_zoo.models.encoder import Encoder
from bert_zoo.tasks.causal_lm import CausalLM
from bert_zoo.tasks.causal_lm.streams import StatefulLM as StatefulLM
from bert_zoo.tasks.classification import Classifier
from bert_zoo.tasks.embedding import SentenceEmbedder
from bert_zoo.tasks.masked_lm import MaskedLM
from bert_zoo.tasks.multi_label_classification import MultiLabelClassifier
from bert_zoo.tasks.multiple_choice import MultipleChoice
from bert_zoo.tasks.next_sentence_prediction import NextSentenceClassifier
from bert_zoo.tasks.pretraining import Pretraining
from bert_zoo.tasks.question_answering import QuestionAnswerer
from bert_zoo.tasks.question_answering.beam import BeamQuestionAnswerer
from bert_zoo.tasks.regression import Regressor
from bert_zoo.tasks.reranking import Reranker
from bert_zoo.tasks.text_to_text import TextToText
from bert_zoo.tasks.token_classification import TokenClassifier

TASKS = {
    model.task: model
    for model in (
        Encoder,
        Classifier,
        MultiLabelClassifier,
        Reranker,
        Regressor,
        TokenClassifier,
        QuestionAnswerer,
        BeamQuestionAnswerer,
        MultipleChoice,
        MaskedLM,
        NextSentenceClassifier,
        Pretraining,
        CausalLM,
        TextToText,
        SentenceEmbedder,
    )
}

# Names in other libraries and in the literature.
_OTHER_WORDS = {
    "feature_extraction": Encoder,
    "backbone": Encoder,
    "text_classification": Classifier,
    "sequence_classification": Classifier,
    "sentiment_analysis": Classifier,
    "zero_shot_classification": Classifier,
    "nli": Classifier,
    "multilabel": MultiLabelClassifier,
    "multilabel_classification": MultiLabelClassifier,
    "cross_encoder": Reranker,
    "text_ranking": Reranker,
    "sts": Regressor,
    "ner": TokenClassifier,
    "pos": TokenClassifier,
    "tagging": TokenClassifier,
    "qa": QuestionAnswerer,
    "squad": QuestionAnswerer,
    "fill_mask": MaskedLM,
    "mlm": MaskedLM,
    "nsp": NextSentenceClassifier,
    "next_sentence": NextSentenceClassifier,
    "text_generation": CausalLM,
    "lm": CausalLM,
    "clm": CausalLM,
    "text2text_generation": TextToText,
    "seq2seq": TextToText,
    "sequence_to_sequence": TextToText,
    "summarization": TextToText,
    "translation": TextToText,
    "sentence_similarity": SentenceEmbedder,
    "sentence_embedding": SentenceEmbedder,
    "embeddings": SentenceEmbedder,
}


def no_such_task(name: str) -> str:
    """Returns the message for an unknown task, with a suggestion if there is one."""
    spelled = str(name).strip().lower().replace("-", "_").replace(" ", "_")
    if spelled in _OTHER_WORDS:
        meant = f" Did you mean {_OTHER_WORDS[spelled].task!r}?"
    else:
        meant = nearest(spelled, TASKS)
    return f"There is no task {name!r}.{meant} The tasks are {', '.join(TASKS)}."
