"""The files of a directory that `bert_zoo.export` writes for LiteRT and ONNX Runtime."""

LITERT_FILE = "model.tflite"
ONNX_SUFFIX = ".onnx"
TOKENIZER_FILE = "tokenizer.json"
DESCRIPTION_FILE = "runtime.json"
# Of the description: what a reader of an older one could misread raises it.
VERSION = 1


def onnx_file(signature: str) -> str:
    """The file of a signature on ids."""
    return f"{signature}{ONNX_SUFFIX}"
