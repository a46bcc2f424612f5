"""Files of vocabulary directories."""

from pathlib import Path

from bert_zoo.json_files import JsonObject, parse_object, utf8_text


class VocabularyFiles:
    """The files of a directory that a tokenizer is made from; keeps the bytes of those that were read.

    Args:
        directory: with the files.

    Attributes:
        contents: name -> bytes of the files that were read so far.

    Raises:
        FileNotFoundError: no such directory.
    """

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise FileNotFoundError(
                f"{directory} is not a directory. Pass the directory that holds the vocabulary, not a "
                "file."
            )
        self.contents: dict[str, bytes] = {}

    def path(self, name: str) -> Path:
        return self.directory / name

    def has(self, name: str) -> bool:
        return self.path(name).is_file()

    def names(self) -> list[str]:
        """The names of the directory's first files, for messages."""
        return sorted(entry.name for entry in self.directory.iterdir())[:20]

    def content(self, name: str) -> bytes:
        if name not in self.contents:
            self.contents[name] = self.path(name).read_bytes()
        return self.contents[name]

    def lines(self, name: str) -> list[str]:
        """The lines of a file in UTF-8, without what ends them.

        Raises:
            ConfigError: names the line that is not UTF-8.
        """
        lines = utf8_text(self.content(name), self.path(name)).split("\n")
        return [line.removesuffix("\r") for line in lines[: -1 if not lines[-1] else None]]

    def json(self, name: str) -> JsonObject:
        """A file's object, or an empty one where there is no such file.

        Raises:
            ConfigError: not JSON, or JSON of another kind.
        """
        path = self.path(name)
        return parse_object(self.content(name), path) if self.has(name) else JsonObject({}, path)
