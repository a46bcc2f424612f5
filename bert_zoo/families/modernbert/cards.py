"""ModernBERT's cards, and settings for fine-tuning and pretraining."""

from dataclasses import replace

from bert_zoo.config import Pooling
from bert_zoo.families.bert.cards import (
    ANSWERS,
    CHOICES,
    EMBEDDING,
    MASKED_LM,
    MINI,
    NANO,
    PROVIDES,
    TEXTS,
    own_size,
)
from bert_zoo.family import HF, Checkpoint, TextSpec, read_table, scores_of
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe

# For both. The authors did not clip, because StableAdamW bounds each update; BertAdamW does not.
ADAM = {"betas": (0.9, 0.98), "bias_correction": True, "clip_norm": None}
RECIPE = Recipe(learning_rate=5e-5, weight_decay=8e-6, max_length=512, **ADAM)
SOURCE = "Warner et al. 2024 (arXiv:2412.13663), appendix E.1"
PRESETS = (
    Preset(
        "modernbert/glue",
        (*TEXTS, *CHOICES),
        RECIPE,
        SOURCE,
        grid={
            "learning_rate": (1e-5, 3e-5, 5e-5, 8e-5),
            "weight_decay": (1e-6, 5e-6, 8e-6, 1e-5),
            "epochs": (1, 2, 3),
        },
        note="The middle of the published grid; the authors chose for each task.",
    ),
    Preset(
        "modernbert/squad",
        ANSWERS,
        RECIPE.replace(epochs=2),
        SOURCE,
        note="The settings for GLUE; the paper has no question answering.",
    ),
)


def size(hidden_size: int, num_layers: int, intermediate_size: int, **more) -> dict:
    """The sizes of an encoder with heads of width 64."""
    return {
        "hidden_size": hidden_size,
        "num_layers": num_layers,
        "num_heads": hidden_size // 64,
        "intermediate_size": intermediate_size,
        **more,
    }


def small_scale(bert: dict, num_layers: int) -> PretrainingSize:
    """A size smaller than the paper's, about as large as BERT's. Its rate falls, since no second training follows."""
    width = bert["hidden_size"]
    own = own_size(bert | size(width, num_layers, width * 5 // 2))
    return replace(own, changes={**own.changes, "schedule": "linear_after_warmup"})


PRETRAINING = PretrainingPreset(
    rows="packed_documents",
    # 1,719 billion tokens at a constant rate; it fell in a later training on 50 billion more.
    recipe=Recipe(
        batch_size=4608,
        total_steps=364_000,
        warmup_steps=636,
        learning_rate=8e-4,
        schedule="constant",
        weight_decay=1e-5,
        **ADAM,
    ),
    phases=((1024, 1.0),),
    sizes={
        "nano": small_scale(NANO, 3),
        "mini": small_scale(MINI, 4),
        "small": PretrainingSize(size(512, 12, 768)),
        "base": PretrainingSize(size(768, 22, 1152)),
        "large": PretrainingSize(size(1024, 28, 2624), {"learning_rate": 5e-4, "batch_size": 4928}),
    },
    vocabulary="byte_bpe",
    lowercase=False,
    source="Warner et al. 2024, section 2.2, appendix A; AnswerDotAI/ModernBERT yamls/modernbert",
)

PAPER = (
    "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder for Fast, Memory Efficient, and "
    "Long Context Finetuning and Inference, arXiv:2412.13663"
)
SIZES = {
    "17m": size(256, 7, 384),
    "32m": size(384, 10, 576),
    "68m": size(512, 19, 768),
    "base": {},
    "large": size(1024, 28, 2624),
    "1b": size(1792, 28, 3840),
    "granite_small": size(384, 12, 1536, num_heads=12),
    "small": size(384, 22, 1152),
}
# What the checkpoints of a release have in common.
RELEASES = {
    "modernbert": {
        "provides": MASKED_LM,
        "licence": "Apache-2.0",
        "paper": PAPER,
        "note": "For English and code. In two of three layers, each token attends to a window of 128 tokens.",
    },
    "ettin": {
        "provides": MASKED_LM,
        "licence": "MIT",
        "paper": "Seq vs Seq: An Open Suite of Paired Encoders and Decoders, arXiv:2507.11412",
        "note": "ModernBERT's architecture in six sizes, trained on open data, for English and code.",
    },
    "modernbert_embed": {
        "provides": EMBEDDING,
        "licence": "Apache-2.0",
        "paper": "Nomic Embed: Training a Reproducible Long Context Text Embedder, arXiv:2402.01613",
        "prompts": {"query": "search_query: ", "document": "search_document: "},
        "note": "A sentence encoder for English: mean-pooled, L2-normalised. Every text needs a prompt, as in training.",
    },
    "gte_modernbert": {
        "provides": EMBEDDING,
        "licence": "Apache-2.0",
        "paper": "mGTE: Generalized Long-Context Text Representation and Reranking Models, arXiv:2407.19669",
        "pooling": Pooling("cls"),
        "note": "A sentence encoder for English: the first token's vector, L2-normalised.",
    },
    "gte_reranker": {
        "provides": PROVIDES["reranking"],
        "licence": "Apache-2.0",
        "paper": "mGTE: Generalized Long-Context Text Representation and Reranking Models, arXiv:2407.19669",
        "score_activation": "sigmoid",
        "note": "Reranks English passages for a query. What the files make scores with was not verified.",
    },
    "granite_r2": {
        "provides": EMBEDDING,
        "licence": "Apache-2.0",
        "paper": "Granite Embedding R2 Models, arXiv:2508.21085",
        "pooling": Pooling("cls"),
        "note": "A sentence encoder for English and code: the first token's vector, L2-normalised.",
    },
    "mmbert": {
        "provides": MASKED_LM,
        "licence": "MIT",
        "paper": "mmBERT: A Modern Multilingual Encoder with Annealed Language Learning, arXiv:2509.06888",
        "note": "ModernBERT's architecture for 1,800 languages, with Gemma's tokenizer: rows are `<bos>` text `<eos>`.",
    },
}
# Fields of a release's configurations.
ON_MEAN = {"classifier_pooling": "mean"}
CONFIGS = {
    "modernbert": ON_MEAN,
    "ettin": {"local_rope_theta": 160_000.0, "max_positions": 7999},
    "modernbert_embed": ON_MEAN,
    "gte_modernbert": ON_MEAN,
    "gte_reranker": ON_MEAN,
    "granite_r2": ON_MEAN | {"global_rope_theta": 80_000.0},
    "mmbert": {"vocab_size": 256_000, "pad_id": 0, "local_rope_theta": 160_000.0},
}
COLUMNS = ("GLUE (dev average)", "BEIR (DPR, nDCG@10)")
TABLE = read_table("""
    name                        release           size           params         repo                                            scores
    modernbert_base             modernbert        base           149_014_272    answerdotai/ModernBERT-base                     88.4 41.6
    modernbert_large            modernbert        large          394_781_696    answerdotai/ModernBERT-large                    90.4 44.0
    ettin_17m                   ettin             17m            16_797_440     jhu-clsp/ettin-encoder-17m                      -
    ettin_32m                   ettin             32m            31_883_136     jhu-clsp/ettin-encoder-32m                      -
    ettin_68m                   ettin             68m            68_144_640     jhu-clsp/ettin-encoder-68m                      -
    ettin_150m                  ettin             base           149_014_272    jhu-clsp/ettin-encoder-150m                     88.9
    ettin_400m                  ettin             large          394_781_696    jhu-clsp/ettin-encoder-400m                     90.8
    ettin_1b                    ettin             1b             1_028_050_688  jhu-clsp/ettin-encoder-1b                       -
    modernbert_embed_base       modernbert_embed  base           149_014_272    nomic-ai/modernbert-embed-base                  -
    gte_modernbert_base         gte_modernbert    base           149_014_272    Alibaba-NLP/gte-modernbert-base                 -
    gte_reranker_modernbert     gte_reranker      base           149_014_272    Alibaba-NLP/gte-reranker-modernbert-base        -
    granite_embedding_r2        granite_r2        base           149_014_272    ibm-granite/granite-embedding-english-r2        -
    granite_embedding_small_r2  granite_r2        granite_small  47_662_464     ibm-granite/granite-embedding-small-english-r2  -
    mmbert_base                 mmbert            base           306_939_648    jhu-clsp/mmBERT-base                            -
    mmbert_small                mmbert            small          140_493_696    jhu-clsp/mmBERT-small                           -
""")


def released(
    name: str, release: str, size: str, params: int, repo: str, scores: str = ""
) -> Checkpoint:
    """A checkpoint; `release` names its fields in `RELEASES` and `CONFIGS`."""
    config = SIZES[size] | CONFIGS[release]
    return Checkpoint(
        name,
        config,
        sources=[HF(repo)],
        params=params,
        text=TextSpec(lowercase=None, max_length=config.get("max_positions", 8192)),
        scores=scores_of(COLUMNS, scores),
        **RELEASES[release],
    )


CHECKPOINTS = [released(**row) for row in TABLE]
