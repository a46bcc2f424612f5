"""DeBERTa's cards, and settings for fine-tuning and for pretraining versions 1 and 3."""

from dataclasses import replace

from bert_zoo.config import Config
from bert_zoo.families.bert import cards as bert_cards
from bert_zoo.families.bert.cards import (
    ANSWERS,
    CHOICES,
    PRETRAINING_SIZES,
    TEXTS,
    nli,
    width,
)
from bert_zoo.family import HF, Checkpoint, TextSpec, read_table
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
    bert_cards.PRETRAINING,
    rows="full_sentences",
    phases=((512, 1.0),),
    sizes=PRETRAINING_SIZES | {"small": PretrainingSize(width(768, 6))},
    vocabulary="sentencepiece_plain",
    lowercase=False,
    source="microsoft/DeBERTa experiments/language_model/rtd.sh; small and large as base",
)
FIRST_PRETRAINING = replace(
    THIRD_PRETRAINING,
    vocabulary="byte_bpe_bracketed",
    source="microsoft/DeBERTa experiments/language_model/mlm.sh; small and large as base",
)

PAPER = "DeBERTa: Decoding-enhanced BERT with Disentangled Attention, arXiv:2006.03654"
CASED = TextSpec(lowercase=None)
MNLI_LABELS = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")


# microsoft/DeBERTa README.md.
COLUMNS = (
    "SQuAD 1.1 (dev F1/EM)",
    "SQuAD 2.0 (dev F1/EM)",
    "MNLI (dev accuracy, matched/mismatched)",
    "SST-2 (dev accuracy)",
    "QNLI (dev accuracy)",
    "CoLA (dev Matthews correlation)",
    "RTE (dev accuracy)",
    "MRPC (dev accuracy/F1)",
    "QQP (dev accuracy/F1)",
    "STS-B (dev Pearson/Spearman correlation)",
)


def scores(row: str) -> dict[str, str]:
    """The scores in a row of that table; "-" marks a missing one."""
    return {
        name: value for name, value in zip(COLUMNS, row.split(), strict=True) if value.strip("-/")
    }


THIRD_PAPER = (
    "DeBERTaV3: Improving DeBERTa using ELECTRA-Style Pre-Training with Gradient-Disentangled "
    "Embedding Sharing, arXiv:2111.09543"
)


def released(
    name: str,
    hidden_size: int,
    num_layers: int,
    params: int,
    also: str = "",
    results: str = "",
    **config: int,
) -> list[Checkpoint]:
    """A checkpoint by Microsoft; its repository has the same name. `also` is what was released with it: its generator
    in the same repository (microsoft/DeBERTa experiments/language_model), or itself fine-tuned on MNLI in another.
    """
    repo = f"microsoft/{name.replace('_', '-')}"
    is_version_3 = "_v3_" in name
    pretrained = Checkpoint(
        name,
        width(hidden_size, num_layers, **config),
        sources=[HF(repo)],
        # The third version's files have no head for masked tokens.
        provides=frozenset({"encoder"} if is_version_3 else {"encoder", "masked_lm"}),
        params=params,
        licence="MIT",
        paper=THIRD_PAPER if is_version_3 else PAPER,
        text=CASED,
        scores=scores(results) if results else {},
    )
    if also == "generator":
        pair = frozenset({"pretraining"})
        sources = [HF(repo, lacks=pair), HF(repo, beside=("pytorch_model.generator.bin",))]
        return [replace(pretrained, sources=sources, provides=pretrained.provides | pair)]
    if also == "mnli":
        on_mnli = replace(
            pretrained,
            sources=[HF(f"{repo}-mnli")],
            provides=frozenset({"encoder", "classification"}),
            tag="mnli",
            labels=MNLI_LABELS,
            scores={n: s for n, s in pretrained.scores.items() if n.startswith("MNLI")},
            note="Fine-tuned on MNLI.",
        )
        return [pretrained, on_mnli]
    return [pretrained]


def released_in(table: str) -> list[Checkpoint]:
    return [checkpoint for row in read_table(table) for checkpoint in released(**row)]


CHECKPOINTS = released_in("""
    name            hidden_size  num_layers  params       also  results
    deberta_base    768          12          138_601_728  mnli  - - 88.8/88.5 - - - - - - -
    deberta_large   1024         24          405_163_008  mnli  95.5/90.1 90.7/88.0 91.3/91.1 96.5 95.3 69.5 91.0 92.6/94.6 92.3/- 92.8/92.5
    deberta_xlarge  1024         48          757_804_032  mnli  - - 91.5/91.2 97.0 - - 93.1 92.1/94.3 - 92.9/92.7
""")
SECOND_CHECKPOINTS = released_in("""
    name                hidden_size  num_layers  conv_size  params         also  results
    deberta_v2_xlarge   1536         24          3          884_593_152    mnli  95.8/90.8 91.4/88.9 91.7/91.6 97.5 95.8 71.1 93.9 92.0/94.2 92.3/89.8 92.9/92.9
    deberta_v2_xxlarge  1536         48          3          1_564_549_632  mnli  96.1/91.4 92.2/89.7 91.7/91.9 97.2 96.0 72.0 93.5 93.1/94.9 92.7/90.3 93.2/93.1
""")
THIRD_CHECKPOINTS = released_in("""
    name               hidden_size  num_layers  params       also       results
    deberta_v3_xsmall  384          12          70_682_112   generator  - 84.8/82.0 88.1/88.3 - - - - - - -
    deberta_v3_small   768          6           141_304_320  generator  - 82.9/80.4 88.3/87.7 - - - - - - -
    deberta_v3_base    768          12          183_831_552  -          - 88.4/85.4 90.6/90.7 - - - - - - -
    deberta_v3_large   1024         24          434_012_160  generator  - 91.5/89.0 91.8/91.9 96.9 96.0 75.3 92.7 92.2/- 93.0/- 93.0/-
""")
(MULTILINGUAL,) = released("mdeberta_v3_base", 768, 12, 278_218_752, vocab_size=251_000)
V2_CHECKPOINTS = [
    *SECOND_CHECKPOINTS,
    *THIRD_CHECKPOINTS,
    replace(
        MULTILINGUAL,
        scores={"XNLI (zero-shot dev accuracy, average over 15 languages)": 79.8},
        note="Covers 102 languages.",
    ),
    *(
        nli(base.name, base.name.replace("_", "-"), base.config, base.params, accuracy)
        for base, accuracy in zip(THIRD_CHECKPOINTS, (87.77, 87.55, 90.04, None), strict=True)
    ),
]
