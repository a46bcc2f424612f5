"""Pretraining: from text, and a checkpoint or nothing, to a run directory."""

from bert_zoo.cli.pretraining.masked import Settings
from bert_zoo.cli.pretraining.measuring import log_frequencies, masked_sentences
from bert_zoo.cli.pretraining.models import model_to_go_on_with, new_model
from bert_zoo.cli.pretraining.progress import Keeper
from bert_zoo.cli.pretraining.run import VOCABULARY, pretrain
from bert_zoo.cli.pretraining.streams import StreamSettings

__all__ = [
    "VOCABULARY",
    "Keeper",
    "Settings",
    "StreamSettings",
    "log_frequencies",
    "masked_sentences",
    "model_to_go_on_with",
    "new_model",
    "pretrain",
]
