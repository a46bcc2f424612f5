"""BERTweet."""

# Ids 0 to 3; the vocabulary's file begins after them.
# fairseq's, which vocab.txt does not list.
FIRST_TOKENS = ("<s>", "<pad>", "</s>", "<unk>")
