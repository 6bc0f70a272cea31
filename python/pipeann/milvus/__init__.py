"""pymilvus's client, inside the process.

`MilvusClient` is a subclass of pymilvus's own. It opens a directory instead of connecting to a
server: `client` has it, `homes` the directories that are open, `reading` and `answers` the calls
that never leave the process, `schemas` what may be declared in plain dicts, `async_client` the same
for asyncio.
"""

try:
    import pymilvus as _pymilvus
except ImportError as error:
    raise ImportError(
        "pipeann.MilvusClient is a subclass of pymilvus's, which is not installed: "
        "`pip install 'pipeann[milvus]'` installs it. pipeann.Database needs no such package."
    ) from error

from pipeann.milvus.async_client import AsyncMilvusClient
from pipeann.milvus.client import MilvusClient

__all__ = ["AsyncMilvusClient", "MilvusClient"]
