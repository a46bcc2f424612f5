"""What memory this process took."""

import resource
import sys


def peak_memory() -> int:
    """The most memory that was resident since the process began, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # elsewhere in KiB
