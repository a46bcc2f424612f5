"""BERTweet."""

# Ids 0 to 3, from fairseq. vocab.txt does not list them: its first line is id 4.
FIRST_TOKENS = ("<s>", "<pad>", "</s>", "<unk>")
