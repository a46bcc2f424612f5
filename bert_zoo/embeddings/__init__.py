"""Train, search and measure sentence vectors and rerankers.

Names are loaded on first use, so search needs no TensorFlow.
"""

from bert_zoo.lazy_names import loaded_on_first_use

# Name -> the module that defines it.
_NAMES: dict[str, str] = {
    "Hits": "bert_zoo.embeddings.exact_search",
    "HybridVectors": "bert_zoo.runtime.answers",
    "int8_ranges": "bert_zoo.embeddings.quantization",
    "TokenIndex": "bert_zoo.embeddings.token_index",
    "pool_tokens": "bert_zoo.embeddings.token_index",
    "Paraphrase": "bert_zoo.embeddings.mining",
    "evaluate_retrieval": "bert_zoo.embeddings.evaluation",
    "evaluate_similarity": "bert_zoo.embeddings.evaluation",
    "mine_negatives": "bert_zoo.embeddings.mining",
    "paraphrases": "bert_zoo.embeddings.mining",
    "StoredVectors": "bert_zoo.embeddings.stored_vectors",
    "VectorForm": "bert_zoo.embeddings.stored_vectors",
    "read_vectors": "bert_zoo.embeddings.stored_vectors",
    "search": "bert_zoo.embeddings.exact_search",
    "engine_query": "bert_zoo.embeddings.engines",
    "vector_sizes": "bert_zoo.embeddings.evaluation",
    "write_documents": "bert_zoo.embeddings.engines",
    "to_binary": "bert_zoo.embeddings.quantization",
    "to_int8": "bert_zoo.embeddings.quantization",
    "BatchHardTriplet": "bert_zoo.tasks.embedding_losses",
    "CoSENT": "bert_zoo.tasks.embedding_losses",
    "CSRLoss": "bert_zoo.tasks.sparse_losses",
    "CosineRegression": "bert_zoo.tasks.embedding_losses",
    "Matryoshka": "bert_zoo.tasks.embedding_losses",
    "HybridRanking": "bert_zoo.tasks.hybrid_embedding",
    "MultipleNegativesRanking": "bert_zoo.tasks.embedding_losses",
    "PairSoftmax": "bert_zoo.tasks.embedding_losses",
    "Splade": "bert_zoo.tasks.sparse_losses",
    "SupervisedContrastive": "bert_zoo.tasks.embedding_losses",
    "DistillKL": "bert_zoo.tasks.list_losses",
    "ListwiseSoftmax": "bert_zoo.tasks.list_losses",
    "MarginMSE": "bert_zoo.tasks.list_losses",
}

__all__ = sorted(_NAMES)

__getattr__, __dir__ = loaded_on_first_use(__name__, _NAMES)
