"""Published settings for fine-tuning DistilBERT."""

from bert_zoo.families.bert.presets import ANSWERS, CHOICES, SENTENCES, SQUAD, SWAG, WORDS
from bert_zoo.presets import Preset, Recipe

PRESETS = (
    Preset(
        "distilbert/glue",
        (*SENTENCES, *WORDS),
        Recipe(),
        "Sanh et al. 2019 (arXiv:1910.01108), section 4, which fine-tunes like BERT",
    ),
    Preset(
        "distilbert/sst2",
        SENTENCES,
        Recipe(learning_rate=1e-5, warmup_steps=600),
        "card of distilbert-base-uncased-finetuned-sst-2-english",
        benchmark="sst2",
    ),
    Preset(
        "distilbert/squad",
        ANSWERS,
        SQUAD.replace(epochs=3),
        "huggingface/transformers examples/research_projects/distillation README.md",
        note="The authors also used a fine-tuned BERT as the teacher.",
    ),
    Preset(
        "distilbert/swag",
        CHOICES,
        SWAG,
        "Devlin et al. 2018, section 4.4",
        note="BERT's settings; Sanh et al. did not train on multiple choice.",
    ),
)
