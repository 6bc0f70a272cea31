"""pipeann: an SSD-resident vector database, searched inside the process.

The graph and the full vectors stay on disk and small codes in memory, so an index may be many
times larger than memory. `Database` holds collections of rows with vectors and fields, whose
writes are on stable storage before they are answered; `Index` is one immutable index alone.
`MilvusClient` is pymilvus's client over such a database.
"""

from typing import TYPE_CHECKING, Any

from pipeann import bulk, errors
from pipeann._native import Collection, Database, Index, __version__
from pipeann.fields import Field

if TYPE_CHECKING:
    # Named twice, they are handed on to whoever checks types.
    from pymilvus import AnnSearchRequest as AnnSearchRequest
    from pymilvus import CollectionSchema as CollectionSchema
    from pymilvus import DataType as DataType
    from pymilvus import FieldSchema as FieldSchema
    from pymilvus import Function as Function
    from pymilvus import FunctionType as FunctionType
    from pymilvus import MilvusException as MilvusException
    from pymilvus import RRFRanker as RRFRanker
    from pymilvus import WeightedRanker as WeightedRanker

    from pipeann.milvus import AsyncMilvusClient as AsyncMilvusClient
    from pipeann.milvus import MilvusClient as MilvusClient

__all__ = [
    "Collection",
    "Database",
    "Field",
    "Index",
    "__version__",
    "bulk",
    "errors",
]

_CLIENTS = {"AsyncMilvusClient", "MilvusClient"}
# What programs import beside the client, of pymilvus itself: all that it has but for what is of no
# use without a server, as `connections` and `utility`, and `Collection` and `Index`, which are
# pipeann's own. Each version has some of it.
_BESIDE = {
    "AggregationBucket",
    "AggregationHit",
    "AnnSearchRequest",
    "BloomFilterBuilder",
    "BulkInsertState",
    "CollectionSchema",
    "CompactionTaskState",
    "CompactionType",
    "DataType",
    "ExceptionsMessage",
    "FieldOp",
    "FieldOpType",
    "FieldSchema",
    "Function",
    "FunctionChain",
    "FunctionChainStage",
    "FunctionScore",
    "FunctionType",
    "Hit",
    "Hits",
    "IndexType",
    "LexicalHighlighter",
    "MilvusException",
    "MilvusUnavailableException",
    "PyMilvusDeprecationWarning",
    "RRFRanker",
    "RoaringBitmapBuilder",
    "SearchAggregation",
    "SearchResult",
    "SegmentState",
    "SemanticHighlighter",
    "Status",
    "StructFieldSchema",
    "TopHits",
    "WeightedRanker",
    "build_bloom_filter",
    "build_roaring_bitmap",
    "hybridts_to_datetime",
    "hybridts_to_unixtime",
    "mkts_from_datetime",
    "mkts_from_hybridts",
    "mkts_from_unixtime",
}


def __getattr__(name: str) -> Any:
    # pymilvus takes a second to import, and not everybody has it.
    if name in _CLIENTS:
        from pipeann import milvus

        return getattr(milvus, name)
    if name in _BESIDE:
        from pipeann.milvus import pymilvus

        if (found := getattr(pymilvus, name, None)) is None:
            version = pymilvus.__version__
            raise AttributeError(f"pymilvus {version}, which is installed, has no {name!r}")
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
