"""AWD-LSTM (Merity et al. 2017, arXiv:1708.02182), which ULMFiT fine-tunes (Howard and Ruder 2018)."""

from bert_zoo.families.awd_lstm import formats
from bert_zoo.families.awd_lstm.checkpoints import CHECKPOINTS
from bert_zoo.families.awd_lstm.config import AwdLstmConfig
from bert_zoo.families.awd_lstm.presets import LANGUAGE_MODELS, PRESETS
from bert_zoo.families.awd_lstm.vocabulary import read_vocabulary
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.family import Family
from bert_zoo.text.format import TextFormat, rows_of_language_models
from bert_zoo.text.layout import PLAIN
from bert_zoo.weights.table import CONCATENATED, OUTPUT, Head, Row


def backbone(config: AwdLstmConfig, dtype):
    """A token table and a stack of LSTMs."""
    from bert_zoo.families.awd_lstm.layers import (
        DroppedLSTM,
        LSTMBackbone,
        LSTMStack,
        WordEmbeddings,
    )

    return LSTMBackbone(
        config,
        embeddings=WordEmbeddings(
            config.vocab_size,
            config.hidden_size,
            word_dropout=config.word_dropout,
            input_dropout=config.input_dropout,
            initializer_range=config.initializer_range,
            dtype=dtype,
            name="embeddings",
        ),
        stack=LSTMStack(
            [
                DroppedLSTM(
                    units,
                    recurrent_dropout=config.recurrent_dropout,
                    backward_tokens=config.backward_tokens,
                    dtype=dtype,
                    name=f"layer_{number}",
                )
                for number, units in enumerate(config.layer_sizes)
            ],
            config,
            dtype=dtype,
            name="stack",
        ),
        dtype=dtype,
    )


def hidden_layer(config: AwdLstmConfig) -> dict:
    """Options of fast.ai's head without batch norms: a hidden layer of 50 units, dropout before both layers."""
    return {
        "transform": "relu",
        "transform_size": 50,
        "dropout_first": config.head_dropout,
        "dropout": config.head_dropout / 4,
    }


SENTENCE = Head(
    (Row(OUTPUT, "classifier/transform"), Row(OUTPUT, "classifier/dense")),
    summary=lambda config: CONCATENATED,
    output=hidden_layer,
)

FAMILY = Family(
    name="awd_lstm",
    backbone=backbone,
    defaults={},
    formats=formats.FORMATS,
    encoder_rows=formats.ENCODER_ROWS,
    heads={
        "causal_lm": formats.SOFTMAX,
        **dict.fromkeys(bert_rows.SENTENCE_TASKS, SENTENCE),
        "token_classification": Head((Row(OUTPUT, "classifier/dense"),)),
    },
    text=TextFormat(read_vocabulary, layout=PLAIN, preprocessor=rows_of_language_models),
    checkpoints=CHECKPOINTS,
    config_class=AwdLstmConfig,
    tasks_without_head=("encoder", "embedding"),
    params_task="causal_lm",
    settings=(
        *("word_dropout", "input_dropout", "hidden_dropout", "last_dropout", "recurrent_dropout"),
        *("head_dropout", "activation_penalty", "change_penalty", "backward_tokens"),
    ),
    presets=PRESETS,
    language_model_presets=LANGUAGE_MODELS,
)
