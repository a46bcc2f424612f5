"""Which variable an entry of a TensorFlow 2 checkpoint is.

Such a checkpoint, and the variables of a SavedModel, are tables as those of TensorFlow 1 whose names are
paths of Python attributes (`model/layer_with_weights-4/_attention_layer/.../VARIABLE_VALUE`), which
differ from program to program. Among them is a graph of objects that says what each variable is called.

Format: tensorflow/core/protobuf/trackable_object_graph.proto.
"""

from collections import Counter

from bert_zoo.protobuf import message_class

# The entry that holds the graph.
KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Behind the path of a variable; what Keras's optimizers keep of it has a path of its own.
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
    """The name of each variable by its key in the table, of those that have one of their own.

    An optimizer's are left out. Raises DecodeError.
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
