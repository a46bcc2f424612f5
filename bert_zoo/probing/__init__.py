"""Probes of what an encoder knows: its layers, its attention heads and its geometry.

The encoder stays frozen. Names are imported on first use.
"""

from bert_zoo.lazy_names import loaded_on_first_use

# Name -> the module that defines it.
_NAMES: dict[str, str] = {
    "AttentionMaps": "bert_zoo.probing.heads",
    "BestHead": "bert_zoo.probing.heads",
    "ComparedTree": "bert_zoo.probing.structural",
    "DescriptionLengths": "bert_zoo.probing.probes",
    "Geometry": "bert_zoo.probing.geometry",
    "HeadDistances": "bert_zoo.probing.heads",
    "HeadPatterns": "bert_zoo.probing.heads",
    "HeadRelations": "bert_zoo.probing.heads",
    "LayerCurve": "bert_zoo.probing.vectors",
    "LayerMixes": "bert_zoo.probing.probes",
    "LayerProbes": "bert_zoo.probing.probes",
    "LayerSimilarity": "bert_zoo.probing.geometry",
    "LayerVectors": "bert_zoo.probing.vectors",
    "OccurrenceMap": "bert_zoo.probing.vectors",
    "Preferences": "bert_zoo.probing.fill_in",
    "PruningCurve": "bert_zoo.probing.heads",
    "Recall": "bert_zoo.probing.fill_in",
    "StructuralProbe": "bert_zoo.probing.structural",
    "WordNeighbours": "bert_zoo.probing.vectors",
    "attachment_score": "bert_zoo.probing.structural",
    "attention_maps": "bert_zoo.probing.heads",
    "choose_words": "bert_zoo.probing.fill_in",
    "cka": "bert_zoo.probing.geometry",
    "compare_trees": "bert_zoo.probing.structural",
    "compute_vectors": "bert_zoo.probing.vectors",
    "description_lengths": "bert_zoo.probing.probes",
    "head_distances": "bert_zoo.probing.heads",
    "head_importance": "bert_zoo.probing.heads",
    "head_patterns": "bert_zoo.probing.heads",
    "head_relations": "bert_zoo.probing.heads",
    "judge_pairs": "bert_zoo.probing.fill_in",
    "map_occurrences": "bert_zoo.probing.vectors",
    "measure_geometry": "bert_zoo.probing.geometry",
    "minimum_spanning_tree": "bert_zoo.probing.structural",
    "mix_layers": "bert_zoo.probing.probes",
    "nearest_words": "bert_zoo.probing.vectors",
    "neighbours": "bert_zoo.probing.vectors",
    "open_vectors": "bert_zoo.probing.vectors",
    "probe_layers": "bert_zoo.probing.probes",
    "prune_heads": "bert_zoo.probing.heads",
    "pruning_curve": "bert_zoo.probing.heads",
    "randomly_initialised": "bert_zoo.probing.vectors",
    "recall_facts": "bert_zoo.probing.fill_in",
    "structural_probe": "bert_zoo.probing.structural",
    "table_by_layer": "bert_zoo.probing.vectors",
    "tree_depths": "bert_zoo.probing.structural",
    "tree_distances": "bert_zoo.probing.structural",
}

__all__ = sorted(_NAMES)

__getattr__, __dir__ = loaded_on_first_use(__name__, _NAMES)
