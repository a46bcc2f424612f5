"""ELMo (Peters et al. 2018, arXiv:1802.05365): LSTMs in both directions over character-based words."""

from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.elmo import formats
from bert_zoo.families.elmo.checkpoints import CHECKPOINTS
from bert_zoo.families.elmo.config import ElmoConfig
from bert_zoo.families.elmo.presets import LANGUAGE_MODELS, PRESETS
from bert_zoo.families.elmo.vocabulary import preprocessor, read_words
from bert_zoo.family import Family
from bert_zoo.text.format import TextFormat
from bert_zoo.text.layout import PLAIN
from bert_zoo.weights.table import MEAN, Head


def embeddings(config: ElmoConfig, **options):
    """Convolutions over characters, or a table of words."""
    from bert_zoo.families.elmo.layers import CharacterEncoder
    from bert_zoo.layers.common import table

    width = config.projection_size
    if not config.num_characters:
        return table(config.vocab_size, width, stddev=config.initializer_range, **options)
    return CharacterEncoder(
        config.num_characters,
        config.character_size,
        filters=config.filters,
        num_highways=config.num_highways,
        output_size=width,
        projects=config.projects_characters,
        activation=config.cnn_activation,
        **options,
    )


def backbone(config: ElmoConfig, dtype):
    """Word vectors and a stack of LSTMs in both directions."""
    from bert_zoo.families.elmo.backbone import ElmoBackbone
    from bert_zoo.families.elmo.layers import BidirectionalLSTM, BidirectionalStack

    blocks = [
        BidirectionalLSTM(
            config.cell_size,
            config.projection_size,
            projects=config.projects_cells,
            cell_clip=config.cell_clip,
            projection_clip=config.projection_clip,
            skips=config.skip_connections and i > 0,
            dropout=config.hidden_dropout,
            dtype=dtype,
            name=f"layer_{i}",
        )
        for i in range(config.num_layers)
    ]
    return ElmoBackbone(
        config,
        embeddings=embeddings(config, dtype=dtype, name="embeddings"),
        stack=BidirectionalStack(
            blocks, config.projection_size, dropout=config.hidden_dropout, dtype=dtype, name="stack"
        ),
        dtype=dtype,
    )


def mean(config: ElmoConfig) -> str:
    return MEAN


FAMILY = Family(
    name="elmo",
    backbone=backbone,
    defaults={},
    formats=formats.FORMATS,
    encoder_rows=formats.ENCODER_ROWS,
    heads={
        **dict.fromkeys(
            ("classification", "multi_label_classification", "regression"),
            Head((bert_rows.CLASSIFIER,), summary=mean),
        ),
        "token_classification": Head((bert_rows.CLASSIFIER,)),
    },
    text=TextFormat(read_words, layout=PLAIN, preprocessor=preprocessor),
    checkpoints=CHECKPOINTS,
    config_class=ElmoConfig,
    presets=PRESETS,
    language_model_presets=LANGUAGE_MODELS,
)
