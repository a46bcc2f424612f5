"""`push_to_hub`: a model to a repository of the Hugging Face hub."""

import re
import tempfile

from bert_zoo.error_text import shown
from bert_zoo.loading.save import save
from bert_zoo.models.base import ZooModel


def push_to_hub(
    model: ZooModel,
    repository: str,
    *,
    format: str = "hf",
    private: bool | None = None,
    token: str | None = None,
    commit_message: str = "Upload a model of bert_zoo",
) -> str:
    """Saves a model and uploads its directory; the repository is made if it does not exist.

    Args:
        model, format: as for `save`; "hf" is what transformers and the hub's widgets read.
        repository: "owner/name", or "name" for one of your own.
        private: whether a new repository is private; your account's default if None.
        token: an access token with the right to write; the one that `hf auth login` stored by default.
        commit_message: of the upload.

    Returns:
        The address of the commit. `load(f"hf://{repository}")` loads the model.

    Raises:
        ValueError: `repository` is no name of a repository, or `save` cannot write this model so.
        huggingface_hub.errors.HfHubHTTPError: the hub refuses it, as without a token.
    """
    from huggingface_hub import HfApi

    if not re.fullmatch(r"([\w-][\w.-]*/)?[\w-][\w.-]*", repository):
        raise ValueError(
            f"repository is {shown(repository)}; it is a name such as 'owner/my-model'."
        )
    with tempfile.TemporaryDirectory() as directory:
        # First: a model that cannot be written leaves no empty repository.
        save(model, directory, format=format)
        api = HfApi(token=token, library_name="bert_zoo")
        made = api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=made.repo_id, folder_path=directory, commit_message=commit_message
        )
    return commit.commit_url
