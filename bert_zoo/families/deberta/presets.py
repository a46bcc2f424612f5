"""DeBERTa's settings for fine-tuning and for pretraining versions 1 and 3."""

from dataclasses import replace

from bert_zoo.config import Config
from bert_zoo.families.bert import presets as bert
from bert_zoo.families.bert.presets import ANSWERS, CHOICES, SIZES, TEXTS, width
from bert_zoo.presets import Preset, PretrainingSize, Recipe

SOURCE = "microsoft/DeBERTa experiments/glue/mnli.sh"
RECIPE = Recipe(epochs=3, batch_size=64, warmup_steps=1000, max_length=256)
# (Width, layers) -> learning rate, epochs, warmup. FIRST is for versions 1 and 2, THIRD for version 3, which
# shares projections and has no convolution.
FIRST = {
    (768, 12): (3e-5, 3, 1000),
    (1024, 24): (1e-5, 3, 1000),
    (1024, 48): (5e-6, 3, 1000),
    (1536, 24): (4e-6, 3, 1000),
    (1536, 48): (3e-6, 3, 1000),
}
THIRD = {
    (384, 12): (4.5e-5, 3, 1000),
    (768, 6): (4.5e-5, 3, 1500),
    (768, 12): (1.5e-5, 3, 1000),
    (1024, 24): (7e-6, 2, 500),
}


def is_third(config: Config) -> bool:
    return config.shares_projections and not config.conv_size


def preset(name: str, size: tuple[int, int], settings: tuple, third: bool) -> Preset:
    rate, epochs, warmup = settings

    def fits(config: Config) -> bool:
        return is_third(config) == third and (config.hidden_size, config.num_layers) == size

    return Preset(
        name,
        (*TEXTS, *CHOICES),
        RECIPE.replace(learning_rate=rate, epochs=epochs, warmup_steps=warmup),
        SOURCE,
        fits=fits,
        note="Published for MNLI. Its dropout before the classifier, which grows with the model, is not set here.",
    )


OF_TEXTS = (
    # For every other size.
    Preset(
        "deberta/glue",
        (*TEXTS, *CHOICES),
        RECIPE.replace(learning_rate=2e-5),
        SOURCE,
        note="For sizes that were not released. The rate is that of the base model on smaller tasks.",
    ),
    *(preset(f"deberta/mnli_l{s[1]}_h{s[0]}", s, FIRST[s], False) for s in FIRST),
    *(preset(f"deberta/v3_l{s[1]}_h{s[0]}", s, THIRD[s], True) for s in THIRD),
)
PRESETS = (
    *OF_TEXTS,
    *(
        replace(
            p,
            name=f"{p.name}_answers",
            tasks=ANSWERS,
            recipe=p.recipe.replace(max_length=384),
            note="The settings for texts with BERT's windows; none were published for question answering.",
        )
        for p in OF_TEXTS
    ),
)

# Batch size, updates and learning rate are BERT's.
THIRD_PRETRAINING = replace(
    bert.PRETRAINING,
    rows="full_sentences",
    phases=((512, 1.0),),
    sizes=SIZES | {"small": PretrainingSize(width(768, 6))},
    vocabulary="sentencepiece_plain",
    lowercase=False,
    source="microsoft/DeBERTa experiments/language_model/rtd.sh; small and large as base",
)
FIRST_PRETRAINING = replace(
    THIRD_PRETRAINING,
    vocabulary="byte_bpe_bracketed",
    source="microsoft/DeBERTa experiments/language_model/mlm.sh; small and large as base",
)
