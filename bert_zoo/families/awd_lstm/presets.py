"""Settings for training AWD-LSTMs from scratch and for ULMFiT's last stage."""

from functools import partial

from bert_zoo.presets import ULMFIT, LanguageModelPreset, Preset, Reading

SOURCE = "Howard and Ruder 2018 (arXiv:1801.06146), section 4.1; fastai train_clas.py"
_words = partial(LanguageModelPreset, family="awd_lstm", unit="word")

LANGUAGE_MODELS = (
    # Our own settings for a few to a few hundred megabytes of text, on a few cores or one GPU.
    _words(
        "lstm_words_nano",
        config={"hidden_size": 128, "lstm_size": 256, "num_layers": 2},
        batch_size=32,
        segment_length=35,
        total_steps=20_000,
        evaluation=Reading(70),
        size="nano",
        vocab_size=8_000,
        learning_rate=3e-3,
        warmup_steps=400,
        clip_norm=0.4,
    ),
    _words(
        "lstm_words_small",
        config={"hidden_size": 256, "lstm_size": 640, "num_layers": 3},
        batch_size=64,
        segment_length=70,
        total_steps=50_000,
        evaluation=Reading(70),
        size="small",
        vocab_size=32_000,
        learning_rate=3e-3,
        warmup_steps=1_000,
        clip_norm=0.4,
    ),
    _words(
        "lstm_words_base",
        # fast.ai's sizes for WikiText-103, with Merity et al.'s batches.
        config={},
        batch_size=80,
        segment_length=70,
        total_steps=200_000,
        evaluation=Reading(70),
        size="base",
        vocab_size=60_000,
        learning_rate=1e-3,
        warmup_steps=2_000,
        clip_norm=0.25,
    ),
    _words(
        "lstm_words_wt2",
        # Merity et al.'s settings for WikiText-2 (salesforce/awd-lstm-lm, README.md): 750 epochs, measured after each.
        config={
            **{"lstm_size": 1150, "word_dropout": 0.1, "input_dropout": 0.65},
            **{"hidden_dropout": 0.2, "last_dropout": 0.4, "recurrent_dropout": 0.5},
        },
        batch_size=80,
        segment_length=70,
        total_steps=279_750,
        evaluation=Reading(70),
        learning_rate=30.0,
        measurements=750,
        patience=5,
    ),
)
PRESETS = (
    Preset(
        "awd_lstm/ulmfit",
        ("classification", "multi_label_classification", "regression"),
        ULMFIT.replace(
            learning_rate=0.01,
            betas=(0.8, 0.99),
            max_length=1400,
            head=None,  # the family's own head is ULMFiT's
        ),
        SOURCE,
        note="The last stage of ULMFiT. First tune the language model on the task's texts: bert_zoo pretrain --model.",
    ),
)
