"""Tables of the random blocks that BigBird's blocks attend to, which are part of the released models.

The original draws them from NumPy's legacy generator, which NumPy promises never to change, with the layer's
number as the seed. Source: google-research/bigbird bigbird/core/attention.py,
generate_rand_attn_list.
"""

import functools

import numpy as np

# Row lengths of the paper's runs, in tokens. Their tables are drawn for the longest, from the blocks of the shortest.
PAPER_LENGTHS = (1024, 2048, 3072, 4096)


def fewest_blocks(number: int) -> int:
    """Blocks of the shortest rows with `number` random blocks; shorter rows have full attention."""
    return 2 * number + 6


@functools.cache
def random_blocks(
    layer: int, num_heads: int, block_size: int, number: int, blocks: int
) -> np.ndarray:
    """The blocks, int32 [num_heads, blocks - 2, number], that a layer's inner blocks attend to, of a row of `blocks`
    blocks (at least `fewest_blocks(number)`) of `block_size` tokens; every head has its own.
    """
    if is_of_paper(block_size, number, blocks):
        return paper_blocks(layer, num_heads, block_size, number)[:, : blocks - 2]
    return first_blocks(layer, num_heads, number, blocks)


def is_of_paper(block_size: int, number: int, blocks: int) -> bool:
    """Whether rows of this length use the tables of the paper's runs. With larger blocks, the shortest of those rows
    has too few blocks to draw from.
    """
    return blocks * block_size in PAPER_LENGTHS and number <= PAPER_LENGTHS[0] // block_size - 4


@functools.cache
def paper_blocks(layer: int, num_heads: int, block_size: int, number: int) -> np.ndarray:
    """The tables of the paper's runs: [num_heads, blocks of 4,096 tokens - 2, number]."""
    generator = np.random.RandomState(layer)
    blocks, last = PAPER_LENGTHS[-1] // block_size, PAPER_LENGTHS[0] // block_size - 1
    middle = np.arange(1, blocks - 1)

    def candidates(row: int) -> np.ndarray:
        if row in (1, 2):
            return middle[row + 1 : last]
        if row >= blocks - 3 or row - 2 > last:
            return middle[:last]
        if row + 1 == last:
            return middle[: row - 2]
        return np.concatenate([middle[: row - 2], middle[row + 1 : last]])

    rows = range(1, blocks - 1)
    tables = [
        [generator.permutation(candidates(row))[:number] for row in rows] for _ in range(num_heads)
    ]
    return np.array(tables, np.int32)


@functools.cache
def first_blocks(layer: int, num_heads: int, number: int, blocks: int) -> np.ndarray:
    """Tables for other lengths, from the first `2 * number + 5` blocks: a longer row's begins with a shorter's."""
    generator = np.random.RandomState(layer)
    candidates = 2 * number + 5

    def chosen(row: int) -> list[int]:
        seen = {0, candidates - 1, row - 1, row, row + 1}
        seen |= {candidates - 2} if row == 1 else {1} if row == candidates - 2 else set()
        drawn = generator.permutation(candidates)
        return [block for block in drawn if block not in seen][:number]

    tables = [[chosen(row) for _ in range(num_heads)] for row in range(1, blocks - 1)]
    return np.array(tables, np.int32).swapaxes(0, 1)
