"""Protocol buffer messages, described by only those fields that are read here."""

from collections.abc import Mapping, Sequence

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

__all__ = ["DecodeError", "message_class"]


def message_class(schema: Mapping[str, Sequence[tuple[int, str, str]]], name: str) -> type:
    """The class of a message; its `FromString` raises DecodeError.

    `schema` maps a message to the number, type and name of each field. A type is a number's, "bytes" or another message,
    with "*" at the end for a repeated field, or "=" and the default.
    """
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=name, package="bert_zoo")
    for message, rows in schema.items():
        described = file.message_type.add(name=message)
        for number, kind, field_name in rows:
            label = field.LABEL_REPEATED if kind.endswith("*") else field.LABEL_OPTIONAL
            kind, _, default = kind.removesuffix("*").partition("=")
            row = described.field.add(name=field_name, number=number, label=label)
            if default:
                row.default_value = default
            if kind in schema:
                row.type, row.type_name = field.TYPE_MESSAGE, f".bert_zoo.{kind}"
            else:
                row.type = field.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"bert_zoo.{name}"))
