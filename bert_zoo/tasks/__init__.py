"""Tasks, one module or package each: model, loss and metrics, verb, and what is served."""

from bert_zoo.models.encoder import Encoder
from bert_zoo.tasks.causal_lm import CausalLM
from bert_zoo.tasks.causal_lm.streams import StatefulLM as StatefulLM
from bert_zoo.tasks.classification import Classifier
from bert_zoo.tasks.embedding import SentenceEmbedder
from bert_zoo.tasks.masked_lm import MaskedLM
from bert_zoo.tasks.multi_label_classification import MultiLabelClassifier
from bert_zoo.tasks.multiple_choice import MultipleChoice
from bert_zoo.tasks.pretraining import Pretraining
from bert_zoo.tasks.question_answering import QuestionAnswerer
from bert_zoo.tasks.question_answering.beam import BeamQuestionAnswerer
from bert_zoo.tasks.regression import Regressor
from bert_zoo.tasks.token_classification import TokenClassifier

TASKS = {
    model.task: model
    for model in (
        Encoder,
        Classifier,
        MultiLabelClassifier,
        Regressor,
        TokenClassifier,
        QuestionAnswerer,
        BeamQuestionAnswerer,
        MultipleChoice,
        MaskedLM,
        Pretraining,
        CausalLM,
        SentenceEmbedder,
    )
}
