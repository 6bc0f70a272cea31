"""pipeann: an SSD-resident vector database, searched inside the process.

The graph and the full vectors stay on disk and small codes in memory, so an index may be many
times larger than memory. `Database` holds collections of rows with vectors and fields, whose
writes are on stable storage before they are answered; `Index` is one immutable index alone.
"""

from pipeann import bulk, errors
from pipeann._native import Collection, Database, Index, __version__
from pipeann.fields import Field

__all__ = ["Collection", "Database", "Field", "Index", "__version__", "bulk", "errors"]
