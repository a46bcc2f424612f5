# Replaces fast.ai's token for a line end, the character itself, which a file of lines cannot hold.
NEWLINE = "xxnl"
