"""`push_to_hub`: uploads a model to the Hugging Face hub."""

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
    """Uploads a model to a repository of the Hugging Face hub, which is created if it does not exist.

    Args:
        model, format: as for `save`; transformers and the hub's widgets read "hf".
        repository: "owner/name", or "name" under your own account.
        private: whether a new repository is private; by default as your account says.
        token: an access token with write permission; by default the one from `hf auth login`.
        commit_message: message of the commit.

    Returns:
        The URL of the commit. `load(f"hf://{repository}")` loads the model.

    Raises:
        ValueError: `repository` is not a valid name, or `save` does not support the model in this format.
        huggingface_hub.errors.HfHubHTTPError: the hub refuses the upload, for example without a token.
    """
    from huggingface_hub import HfApi

    if not re.fullmatch(r"([\w-][\w.-]*/)?[\w-][\w.-]*", repository):
        raise ValueError(
            f"repository is {shown(repository)}; it is a name such as 'owner/my-model'."
        )
    with tempfile.TemporaryDirectory() as directory:
        # Save before creating the repository, so that a failure leaves no empty one.
        save(model, directory, format=format)
        api = HfApi(token=token, library_name="bert_zoo")
        made = api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=made.repo_id, folder_path=directory, commit_message=commit_message
        )
    return commit.commit_url
