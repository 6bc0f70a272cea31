"""pipeann: an SSD-resident vector database, searched inside the process.

The graph and the full vectors stay on disk and small codes in memory, so an index may be many
times larger than memory.
"""

from pipeann._native import Index, __version__

__all__ = ["Index", "__version__"]
