"""Names of the variables in a TensorFlow 2 checkpoint.

TensorFlow 2 checkpoints and SavedModels use TensorFlow 1's table format, but their names are paths of Python
attributes (`model/layer_with_weights-4/_attention_layer/.../VARIABLE_VALUE`), which differ between programs.
One entry holds an object graph with each variable's own name.

Format: tensorflow/core/protobuf/trackable_object_graph.proto.
"""

from collections import Counter

from bert_zoo.protobuf import message_class

# The entry that holds the graph.
KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Suffix of a variable's path. Variables of Keras's optimizers have their own paths.
_VARIABLE = "/.ATTRIBUTES/VARIABLE_VALUE"
_OPTIMIZER = ("/.OPTIMIZER_SLOT/", "/_variables/", "/_momentums/", "/_velocities/")
_SCHEMA = {
    "Graph": ((1, "Object*", "nodes"),),
    "Object": ((2, "Attribute*", "attributes"),),
    "Attribute": (
        *((1, "string", "name"), (2, "string", "full_name")),
        (3, "string", "checkpoint_key"),
    ),
}


def variable_names(graph: bytes) -> dict[str, str]:
    """Returns key in the table -> name, for all variables with a unique name except an optimizer's.

    Raises:
        DecodeError: the graph is damaged.
    """
    nodes = message_class(_SCHEMA, "Graph").FromString(graph).nodes
    names = {
        attribute.checkpoint_key: attribute.full_name
        for node in nodes
        for attribute in node.attributes
        if attribute.full_name and _is_of_model(attribute.checkpoint_key)
    }
    counts = Counter(names.values())
    return {key: name for key, name in names.items() if counts[name] == 1}


def _is_of_model(key: str) -> bool:
    return key.endswith(_VARIABLE) and not any(part in f"/{key}" for part in _OPTIMIZER)
