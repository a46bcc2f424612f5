"""What readers type into the site's search, and the page that they then see first.

The words become tags of their page, which the search puts before titles. `check` asks the finished index for each
of them.
"""

import json
import re
from pathlib import Path

# Page -> what finds it first, apart from the words of its title.
WORDS = {
    "installing.md": ("pip", "windows", "docker"),
    "quickstart.md": ("tutorial", "getting started", "hello world"),
    "howto/classify.md": (
        "classification",
        "multi label",
        "multilabel",
        "sentiment analysis",
        "intent",
        "zero shot",
        "predict probabilities",
        "predict_proba",
        "class weights",
        "imbalanced",
        "softmax",
    ),
    "howto/try_a_model.md": ("demo", "gradio", "playground", "web page"),
    "howto/tag.md": (
        "tagging",
        "ner",
        "named entity recognition",
        "entities",
        "pos",
        "part of speech",
        "chunking",
        "spacy",
    ),
    "howto/text_to_text.md": (
        "summarize",
        "summarization",
        "summarise",
        "summary",
        "translate",
        "translation",
        "seq2seq",
        "encoder decoder",
    ),
    "howto/answer.md": ("question answering", "qa", "reading comprehension"),
    "howto/embed.md": (
        "embeddings",
        "sentence embeddings",
        "sentence vectors",
        "cosine",
        "semantic similarity",
        "umap",
    ),
    "howto/search.md": ("semantic search", "vector database", "faiss", "retrieval", "rag"),
    "howto/train_embeddings.md": ("contrastive", "triplets", "hard negatives"),
    "howto/rerank.md": ("cross encoder", "reranking"),
    "howto/features.md": ("feature extraction", "freeze"),
    "howto/long_documents.md": ("sliding window", "truncation", "too long"),
    "howto/adapt.md": ("domain adaptation", "continue pretraining"),
    "howto/tune.md": ("hyperparameter", "grid search", "learning rate", "optuna"),
    "howto/track.md": ("tensorboard", "wandb", "mlflow"),
    "howto/scikit_learn.md": ("sklearn", "cross validation", "pipeline"),
    "howto/several_devices.md": ("gpus", "mirrored strategy"),
    "howto/distill.md": ("knowledge distillation", "student"),
    "howto/make_it_small.md": ("prune", "compress"),
    "howto/serve_http.md": ("fastapi", "rest", "tensorflow serving", "kubernetes"),
    "howto/publish.md": ("upload", "push_to_hub", "model card"),
    "finetuning.md": (
        "fine tuning",
        "finetuning",
        "early stopping",
        "patience",
        "csv",
        "lora",
        "few shot",
    ),
    "language_models.md": ("text generation", "perplexity", "sampling", "gpt"),
    "memory.md": (
        "mixed precision",
        "mixed_float16",
        "bfloat16",
        "out of memory",
        "oom",
        "gradient accumulation",
        "gradient checkpointing",
    ),
    "serving.md": (
        "android",
        "ios",
        "iphone",
        "mobile",
        "tflite",
        "browser",
        "javascript",
        "quantize",
    ),
    "export.md": ("savedmodel", "saved model"),
    "pretraining.md": ("from scratch", "masked language model", "mlm"),
    "reliability.md": ("proxy", "cache", "download"),
    "text.md": ("tokenizer", "tokenization"),
    "migrating/tf_hub.md": ("hub.keraslayer", "tensorflow hub"),
    "migrating/transformers.md": ("hugging face", "huggingface", "pytorch"),
}
# The boosts of mkdocs-material's search: of fields, and of an article or a section with all words.
FIELDS = {"title": 1e3, "text": 1, "tags": 1e6}


def first_pages(index: Path) -> dict[str, str]:
    """Returns the page that mkdocs-material's search shows first for each query."""
    from lunr.builder import Builder
    from lunr.stop_word_filter import stop_word_filter

    content = json.loads(index.read_text(encoding="utf-8"))
    builder = Builder()
    builder.pipeline.add(stop_word_filter)
    builder.ref("location")
    for name, boost in FIELDS.items():
        builder.field(name, boost)
    for entry in content["docs"]:
        texts = {name: _words(entry.get(name, "")) for name in FIELDS}
        builder.add({"location": entry["location"], **texts})
    built = builder.build()
    queries = [query for words in WORDS.values() for query in words]
    return {query: _first(built, query) for query in queries}


def _words(text: str | list[str]) -> str:
    return re.sub(r"<[^>]*>", " ", text if isinstance(text, str) else " ".join(text)).lower()


def _first(index, query: str) -> str:
    """Returns the page with the best section, as the site's search worker ranks them (mkdocs-material 9.6)."""
    terms = query.lower().split()
    scores = {}
    for match in index.search(" ".join(f"{term}*" for term in terms)):
        found = match["match_data"].metadata
        has_all = all(any(word.startswith(term) for word in found) for term in terms)
        boost = ("#" not in match["ref"]) + has_all
        page = match["ref"].partition("#")[0]
        scores[page] = max(scores.get(page, 0), match["score"] * (1 + boost**2))
    return max(scores, key=scores.get, default="nothing")


def check(index: Path) -> None:
    """Raises ValueError if a query finds another page first."""
    shown = first_pages(index)
    wrong = [
        f"{query!r} finds {shown[query]}, not {page}"
        for page, words in WORDS.items()
        for query in words
        if shown[query] != page.removesuffix(".md") + ".html"
    ]
    if wrong:
        raise ValueError("The site's search shows another page first: " + "; ".join(wrong))
