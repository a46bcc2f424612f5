"""MPNet's fine-tuning settings, of its authors' programs."""

from bert_zoo.families import roberta_presets
from bert_zoo.families.bert_presets import ANSWERS, SENTENCES, WORDS
from bert_zoo.presets import Preset

README = "microsoft/MPNet MPNet/README.glue.md"
PRESETS = (
    Preset("mpnet/glue", (*SENTENCES, *WORDS), roberta_presets.RECIPE, README),
    *(
        Preset(
            f"mpnet/{benchmark}",
            SENTENCES,
            roberta_presets.RECIPE.replace(
                batch_size=rows, learning_rate=rate, total_steps=updates, warmup_steps=warmup
            ),
            README,
            benchmark=benchmark,
        )
        # The numbers are RoBERTa's.
        for benchmark, (rows, rate, updates, warmup) in roberta_presets.GLUE.items()
    ),
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
