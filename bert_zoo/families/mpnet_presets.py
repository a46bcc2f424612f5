"""MPNet's fine-tuning settings, of its authors' programs."""

from bert_zoo.families import roberta_presets
from bert_zoo.families.bert_presets import ANSWERS, SENTENCES, WORDS
from bert_zoo.presets import Preset

README = "microsoft/MPNet MPNet/README.glue.md"
PRESETS = (
    Preset("mpnet/glue", (*SENTENCES, *WORDS), roberta_presets.RECIPE, README),
    *roberta_presets.of_glue("mpnet", README),  # the numbers are RoBERTa's
    Preset(
        "mpnet/squad",
        ANSWERS,
        roberta_presets.RECIPE.replace(
            epochs=4,
            batch_size=48,
            learning_rate=2e-5,
            weight_decay=0.01,
            total_steps=5430,
            warmup_steps=326,
        ),
        "microsoft/MPNet MPNet/README.squad.md",
        note="The program does not say how windows overlap; BERT's stride stands in.",
    ),
)
