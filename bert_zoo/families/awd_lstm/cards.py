"""AWD-LSTM's cards, and settings for training from scratch and for ULMFiT's last stage."""

from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import Archive, Checkpoint, TextSpec, read_table
from bert_zoo.presets import ULMFIT, LanguageModelPreset, Preset, Reading

SOURCE = "Howard and Ruder 2018 (arXiv:1801.06146), section 4.1; fastai train_clas.py"
CONFIGS = {
    "lstm_words_nano": {"hidden_size": 128, "lstm_size": 256, "num_layers": 2},
    "lstm_words_small": {"hidden_size": 256, "lstm_size": 640, "num_layers": 3},
    "lstm_words_base": {},
    "lstm_words_wt2": {
        **{"lstm_size": 1150, "word_dropout": 0.1, "input_dropout": 0.65},
        **{"hidden_dropout": 0.2, "last_dropout": 0.4, "recurrent_dropout": 0.5},
    },
}
# nano and small are our own settings for a few to a few hundred megabytes of text, on a few cores or one GPU; base has
# fast.ai's sizes for WikiText-103, with Merity et al.'s batches; wt2 has Merity et al.'s settings for WikiText-2
# (salesforce/awd-lstm-lm, README.md): 750 epochs, measured after each.
LANGUAGE_MODELS = tuple(
    LanguageModelPreset(
        family="awd_lstm",
        config=CONFIGS[row["name"]],
        unit="word",
        evaluation=Reading(70),
        **row,
    )
    for row in read_table("""
        name              size   batch_size  segment_length  total_steps  vocab_size  learning_rate  warmup_steps  clip_norm  measurements  patience
        lstm_words_nano   nano   32          35              20_000       8_000       3e-3           400           0.4        -             -
        lstm_words_small  small  64          70              50_000       32_000      3e-3           1_000         0.4        -             -
        lstm_words_base   base   80          70              200_000      60_000      1e-3           2_000         0.25       -             -
        lstm_words_wt2    -      80          70              279_750      -           30.0           -             -          750           5
    """)
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

URL = "https://s3.amazonaws.com/fast-ai-modelzoo"
PAPER = "Universal Language Model Fine-tuning for Text Classification, arXiv:1801.06146"


def wt103(direction: str, tag: str, note: str) -> Checkpoint:
    """A model trained on WikiText-103. Both directions have the same sizes."""
    return Checkpoint(
        "awd_lstm_wt103",
        {"vocab_size": 60_002},
        tag=tag,
        sources=[Archive(f"{URL}/wt103-{direction}.tgz")],
        provides=frozenset({"encoder", "causal_lm"}),
        params=44_334_082,
        licence="Apache-2.0",
        paper=PAPER,
        text=TextSpec(lowercase=None, max_length=1400),
        note=note,
    )


SIZES = (
    "The sizes shown are those that fast.ai published; `load` reads the actual ones from the file."
)
(NANO,) = (preset for preset in LANGUAGE_MODELS if preset.size == SIZE)
CHECKPOINTS = [
    wt103("fwd", "forwards", f"Reads text from the first token to the last. {SIZES}"),
    wt103("bwd", "backwards", f"Reads text from the last token to the first. {SIZES}"),
    trained_here(
        "awd_lstm_nano",
        {**NANO.config, "vocab_size": 8001},
        PAPER,
        sha256="deaefdbec99c67fdfdcc996d1ee426da92755102e3a2a3ac592926d2c0659522",
        params=1_625_025,
        scores={
            "held-out loss": 4.404,
            "held-out loss before training": 8.986,
            "held-out loss of a unigram model": 6.026,
        },
        provides=frozenset({"encoder", "causal_lm"}),
        text=TextSpec(lowercase=False, max_length=2048),
    ),
]
