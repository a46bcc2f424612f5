"""XLM-RoBERTa (Conneau et al. 2020, arXiv:1911.02116): RoBERTa in a hundred languages."""

from dataclasses import replace

from bert_zoo.config import Pooling
from bert_zoo.families import roberta
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.cards import BASE, EMBEDDING, LARGE, multilingual_e5
from bert_zoo.families.roberta import fairseq
from bert_zoo.family import HF, Checkpoint, TextSpec
from bert_zoo.text.files import special_tokens
from bert_zoo.text.format import TextFormat
from bert_zoo.text.numpy_packing import ROBERTA
from bert_zoo.text.vocabulary_files import NEXT_LINE, Scheme, read_sentencepiece
from bert_zoo.weights.formats.hybrid_directories import SPARSE, TOKENS
from bert_zoo.weights.table import hybrid_head

PAPER = "Unsupervised Cross-lingual Representation Learning at Scale, arXiv:1911.02116"
FAIRSEQ_CODEC = replace(
    roberta.FAIRSEQ_CODEC,
    fixed={**roberta.FAIRSEQ_CODEC.fixed, "task": ("multilingual_masked_lm",)},
)
# fairseq's dictionary puts four tokens before the pieces; three of them are also pieces of the model.
SCHEME = Scheme(
    name="xlm_roberta",
    model_file="sentencepiece.bpe.model",
    tokenizer_class="XLMRobertaTokenizer",
    replaced_pieces=("<unk>", "<s>", "</s>"),
    first_tokens=("<s>", "<pad>", "</s>", "<unk>"),
    last_tokens=("<mask>",),
    special_tokens=special_tokens("<unk>", "<pad>", "<s>", "</s>", "<mask>"),
    spaces=NEXT_LINE,
)

E5_LARGE = multilingual_e5("large", "ab10c1a7f42e74530fe7ae5be82e6d4f11a719eb", LARGE, 559_890_432)
WEB_SEARCH = "Given a web search query, retrieve relevant passages that answer the query"


def instruction(task: str) -> str:
    """What stands before a query of an instructed E5 model."""
    return f"Instruct: {task}\nQuery: "


EXAMPLE = instruction("Retrieve semantically similar text")

HYBRID = "hybrid_embedding"
BGE_M3 = Checkpoint(
    "bge_m3",
    LARGE | {"max_positions": 8194},
    sources=[HF("BAAI/bge-m3")],
    provides=EMBEDDING | {"sparse_embedding", "late_interaction", HYBRID},
    params=567_754_752,
    licence="MIT",
    paper="M3-Embedding: Multi-Linguality, Multi-Functionality, Multi-Granularity, arXiv:2402.03216",
    text=TextSpec(lowercase=None, max_length=8192),
    pooling=Pooling("cls"),
    sparse_pooling=SPARSE,
    token_vectors=TOKENS,
    aliases=["bge-m3"],
    note=(
        "Dense, sparse and token vectors in one pass, for a hundred languages; task='embedding', 'sparse_embedding' or "
        "'late_interaction' loads one kind alone."
    ),
)

FAMILY = replace(
    roberta.FAMILY,
    name="xlm_roberta",
    defaults=roberta.FAMILY.defaults | {"vocab_size": 250002},
    pretraining_preset=None,
    formats={
        "hf": replace(
            roberta.FAMILY.formats["hf"],
            model_type="xlm-roberta",
            classes=bert.hf_classes("XLMRoberta"),
        ),
        "fairseq": replace(roberta.FAMILY.formats["fairseq"], codec=FAIRSEQ_CODEC),
        "keras_hub": replace(
            roberta.FAMILY.formats["keras_hub"],
            class_name="XLMRobertaBackbone",
            classes={"XLMRobertaTextClassifier": "XLMRobertaForSequenceClassification"},
        ),
    },
    heads={**roberta.FAMILY.heads, HYBRID: hybrid_head()},
    text=TextFormat(read_sentencepiece, {"scheme": SCHEME}, ROBERTA),
    checkpoints=[
        *(
            fairseq(
                f"xlm_roberta_{size}",
                f"xlmr.{size}",
                config,
                params,
                commit,
                paper=PAPER,
                scores={"XNLI (test accuracy, average over 15 languages)": accuracy},
                note="Covers 100 languages.",
            )
            for size, config, params, commit, accuracy in (
                ("base", BASE, 277_453_056, "e73636d4f797dec63c3081bb6ed5c7b0bb3f2089", 76.2),
                ("large", LARGE, 558_840_832, "c23d21b0620b635a76227c604d44e43a9f0ee389", 80.9),
            )
        ),
        multilingual_e5("base", "d13f1b27baf31030b7fd040960d60d909913633f", BASE, 278_043_648),
        E5_LARGE,
        BGE_M3,
        replace(
            E5_LARGE,
            name="multilingual_e5_large_instruct",
            sources=[HF("intfloat/multilingual-e5-large-instruct")],
            prompts={"query": instruction(WEB_SEARCH), "document": ""},
            aliases=["multilingual-e5-large-instruct"],
            note=(
                "A sentence encoder for a hundred languages: mean-pooled, L2-normalised. A query needs an instruction in "
                f"English; the prompt's is for search. For another task, pass one such as prompt={EXAMPLE!r}. Documents "
                "have none."
            ),
        ),
        Checkpoint(
            "paraphrase_multilingual_mpnet",
            BASE,
            sources=[HF("sentence-transformers/paraphrase-multilingual-mpnet-base-v2")],
            provides=EMBEDDING,
            params=278_043_648,
            licence="Apache-2.0",
            paper="Making Monolingual Sentence Embeddings Multilingual using Knowledge Distillation, arXiv:2004.09813",
            text=TextSpec(lowercase=None, max_length=128),
            pooling=Pooling("mean", normalize=False),
            aliases=["paraphrase-multilingual-mpnet-base-v2"],
            note="A sentence encoder for more than 50 languages: mean-pooled, not normalised.",
        ),
    ],
)
