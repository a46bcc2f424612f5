"""DistilBERT (Sanh et al. 2019, arXiv:1910.01108): BERT with half the layers, without segments or pooler."""

from functools import partial

from bert_zoo.config import SparsePooling
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.cards import (
    ANSWERS,
    CHOICES,
    SENTENCES,
    SQUAD,
    SWAG,
    UNVERIFIED,
    WORDS,
)
from bert_zoo.family import HF, Checkpoint, Family, TextSpec
from bert_zoo.presets import Preset, Recipe
from bert_zoo.text.format import TextFormat
from bert_zoo.text.numpy_packing import Layout
from bert_zoo.text.vocabulary_files import read_wordpiece
from bert_zoo.weights.formats import HuggingFace, keras_hub
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import DENSE, Head, Row

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

PAPER = "DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter, arXiv:1910.01108"


def released(name: str, vocab_size: int, params: int, repo: str = "", **card) -> Checkpoint:
    """A checkpoint by Hugging Face. All have the same licence and layer sizes."""
    return Checkpoint(
        name,
        {"vocab_size": vocab_size},
        sources=[HF(f"distilbert/{name.replace('_', '-')}{repo}")],
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        **{"provides": frozenset({"encoder", "masked_lm"}), **card},
    )


def uncased(**card) -> Checkpoint:
    text = TextSpec(lowercase=True)
    return released("distilbert_base_uncased", 30522, 66_362_880, text=text, **card)


SPLADE_V2 = {
    "licence": "CC-BY-NC-SA-4.0 (not for commercial use)",
    "paper": "SPLADE v2: Sparse Lexical and Expansion Model for Information Retrieval, arXiv:2109.10086",
}
OPENSEARCH = {
    "licence": "Apache-2.0",
    "paper": (
        "Exploring l0 Sparsification for Inference-free Sparse Retrievers, arXiv:2504.14839; Towards Competitive "
        "Search Relevance For Inference-Free Learned Sparse Retrievers, arXiv:2411.04403"
    ),
}


def sparse(
    name: str, repo: str, how: str, pooling: SparsePooling, mrr: float | None, **card
) -> Checkpoint:
    """A sparse encoder for English search, of DistilBERT's sizes."""
    return Checkpoint(
        name,
        {"vocab_size": 30522},
        sources=[HF(repo)],
        provides=frozenset({"encoder", "masked_lm", "sparse_embedding"}),
        params=66_362_880,
        sparse_pooling=pooling,
        text=TextSpec(lowercase=True),
        scores={} if mrr is None else {"MS MARCO (dev MRR@10)": mrr},
        aliases=[repo.partition("/")[2]] if "-" in repo.partition("/")[2] else [],
        note=f"A sparse encoder for English search{how}. {UNVERIFIED}",
        **card,
    )


BY_WEIGHTS = ", for documents; queries are the weights of their tokens in a table of its files: embed(texts, role='query')"
NO_QUERY_MODEL = SparsePooling(static_queries=True)
SPARSE = [
    sparse(
        "splade_v2_max",
        "naver/splade_v2_max",
        ", trained on MS MARCO",
        SparsePooling(),
        34.0,
        **SPLADE_V2,
    ),
    sparse(
        *("splade_v2_distil", "naver/splade_v2_distil", ", distilled on MS MARCO"),
        *(SparsePooling(), 36.8),
        **SPLADE_V2,
    ),
    *(
        sparse(
            f"opensearch_sparse_{name}",
            f"opensearch-project/opensearch-neural-sparse-encoding-{name.replace('_', '-')}",
            *(how, pooling, None),
            **OPENSEARCH,
        )
        for name, how, pooling in (
            ("v2_distill", "", SparsePooling()),
            ("doc_v2_distill", BY_WEIGHTS, NO_QUERY_MODEL),
            (
                "doc_v3_distill",
                BY_WEIGHTS,
                SparsePooling(activation="log1p_relu", static_queries=True),
            ),
        )
    ),
]

CASED = TextSpec(lowercase=False)
CHECKPOINTS = [
    uncased(
        # Hugging Face's distillation README, development sets.
        scores={
            "MNLI (dev accuracy)": 82.1,
            "QNLI (dev accuracy)": 89.2,
            "QQP (dev accuracy)": 88.5,
            "SST-2 (dev accuracy)": 91.3,
            "CoLA (dev Matthews correlation)": 51.3,
            "MRPC (dev)": 87.5,
            "RTE (dev accuracy)": 59.9,
            "STS-B (dev)": 86.9,
        }
    ),
    uncased(
        repo="-finetuned-sst-2-english",
        tag="sst2",
        provides=frozenset({"encoder", "classification"}),
        labels=("NEGATIVE", "POSITIVE"),
        scores={"SST-2 (dev accuracy)": 91.3},
        note="Fine-tuned on SST-2.",
    ),
    uncased(
        repo="-distilled-squad",
        tag="squad",
        provides=frozenset({"encoder", "question_answering"}),
        scores={"SQuAD 1.1 (dev F1)": 86.9, "SQuAD 1.1 (dev exact match)": 79.1},
        note="Distilled on SQuAD 1.1 from a BERT that was fine-tuned on it.",
    ),
    released("distilbert_base_cased", 28996, 65_190_912, text=CASED),
    released(
        "distilbert_base_multilingual_cased",
        119547,
        134_734_080,
        text=CASED,
        aliases=["distilmbert"],
        note="Covers 104 languages.",
    ),
    *SPARSE,
]

DEFAULTS = {"num_segments": 0, "pooler": False, "classifier_dropout": 0.2, "span_dropout": 0.1}
HF_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size"),
        ConfigRow("hidden_size", "dim"),
        ConfigRow("num_layers", "n_layers"),
        ConfigRow("num_heads", "n_heads"),
        ConfigRow("intermediate_size", "hidden_dim"),
        ConfigRow("max_positions", "max_position_embeddings", optional=True),
        ConfigRow("hidden_dropout", "dropout", optional=True),
        ConfigRow("attention_dropout", optional=True),
        ConfigRow(
            "classifier_dropout", "seq_classif_dropout", optional=True, written="head_dropout"
        ),
        ConfigRow("span_dropout", "qa_dropout", optional=True),
        ConfigRow("activation", "activation", ACTIVATIONS, optional=True),
        ConfigRow("initializer_range", optional=True),
        ConfigRow("tie_word_embeddings", optional=True),
        ConfigRow("pad_id", "pad_token_id", optional=True),
    ],
    # Sinusoids were only the initial values; the table is read from the file.
    ignored=frozenset({"sinusoidal_pos_embds", "tie_weights_"}),
    defaults=DEFAULTS,
)

LAYER = "transformer.layer.{i}."
HF_NAMES = {
    "stack/layer_{i}/attention/qkv": tuple(f"{LAYER}attention.{p}_lin" for p in "qkv"),
    "stack/layer_{i}/attention/output": f"{LAYER}attention.out_lin",
    "stack/layer_{i}/attention_norm": f"{LAYER}sa_layer_norm",
    "stack/layer_{i}/feed_forward/intermediate": f"{LAYER}ffn.lin1",
    "stack/layer_{i}/feed_forward/output": f"{LAYER}ffn.lin2",
    "stack/layer_{i}/output_norm": f"{LAYER}output_layer_norm",
}
ENCODER_ROWS = bert.renamed(
    bert.ENCODER_ROWS, "hf", HF_NAMES, lacks="embeddings/segment_embedding pooler/dense"
)
MASKED_LM = bert.projecting_head("vocab_transform", "vocab_layer_norm", "vocab_projector")
# A layer with ReLU in place of the pooler, without dropout before it.
SENTENCE = Head(
    (Row(DENSE, "classifier/transform", hf="pre_classifier"), bert.CLASSIFIER),
    output=partial(bert.with_layer, activation="relu", dropout_first=0.0),
)

FAMILY = Family(
    name="distilbert",
    backbone=bert.backbone,
    defaults={"vocab_size": 30522, "num_layers": 6, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="distilbert",
            codec=HF_CODEC,
            root="distilbert.",
            classes=bert.hf_classes("DistilBert"),
        ),
        "keras_hub": keras_hub.KerasHub(
            class_name="DistilBertBackbone",
            codec=keras_hub.codec(defaults=DEFAULTS),
            layers={**keras_hub.JOINT_TABLES, **keras_hub.ENCODER, **keras_hub.TWO_LAYERS},
            classes={"DistilBertTextClassifier": "DistilBertForSequenceClassification"},
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads={
        **bert.TASK_HEADS,
        "masked_lm": MASKED_LM,
        "token_classification": Head((bert.CLASSIFIER,), output=bert.hidden_dropout),
        **dict.fromkeys((*bert.SENTENCE_TASKS, "multiple_choice"), SENTENCE),
    },
    text=TextFormat(
        read_wordpiece,
        layout=Layout(segments=False),
        transformers_class="DistilBertTokenizer",
    ),
    checkpoints=CHECKPOINTS,
    pretraining="masked_tokens",
    presets=PRESETS,
)
