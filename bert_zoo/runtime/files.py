"""Names of the files that `bert_zoo.export` writes for LiteRT and ONNX Runtime."""

LITERT_FILE = "model.tflite"
ONNX_SUFFIX = ".onnx"
TOKENIZER_FILE = "tokenizer.json"
DESCRIPTION_FILE = "runtime.json"
# Version of the description; a change that older readers would misread raises it.
VERSION = 1


def onnx_file(signature: str) -> str:
    """Returns the file name of a signature on ids."""
    return f"{signature}{ONNX_SUFFIX}"
