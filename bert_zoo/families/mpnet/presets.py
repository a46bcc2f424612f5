"""Published settings for fine-tuning MPNet."""

from bert_zoo.families.bert.presets import ANSWERS, CHOICES, SENTENCES, WORDS, of_glue
from bert_zoo.families.roberta import presets as roberta_presets
from bert_zoo.presets import Preset

README = "microsoft/MPNet MPNet/README.glue.md"
PRESETS = (
    Preset("mpnet/glue", (*SENTENCES, *WORDS), roberta_presets.RECIPE, README),
    # The same numbers as RoBERTa's.
    *of_glue("mpnet", roberta_presets.RECIPE, roberta_presets.GLUE, README),
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
        note="The stride of windows is BERT's; the authors state none.",
    ),
    Preset(
        "mpnet/race",
        CHOICES,
        roberta_presets.RACE,
        "fairseq examples/roberta/README.race.md",
        note="RoBERTa's settings, which MPNet also uses for GLUE; its repository has no multiple choice.",
    ),
)
