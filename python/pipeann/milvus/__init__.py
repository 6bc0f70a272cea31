"""pymilvus's client, inside the process.

`MilvusClient` is a subclass of pymilvus's own. It opens a directory instead of connecting to a
server: `client` has it, `homes` the directories that are open, `reading` and `answers` the calls
that never leave the process, `schemas` what may be declared in plain dicts, `async_client` the same
for asyncio.
"""

import re

# The oldest that the clients are written for, and all that they are tried with.
_OLDEST = (2, 5, 12)
_WANTED = "pymilvus>=2.5.12,<3.1"

try:
    import pymilvus
except ImportError as error:
    raise ImportError(
        "pipeann.MilvusClient is a subclass of pymilvus's, which is not installed: "
        f"`pip install '{_WANTED}'` installs it. pipeann.Database needs no such package."
    ) from error

# Of a version before its release, such as 2.6.0rc1, the numbers.
if tuple(int(number) for number in re.findall(r"\d+", pymilvus.__version__)[:3]) < _OLDEST:
    raise ImportError(
        f"pymilvus {pymilvus.__version__} is too old for pipeann.MilvusClient: "
        f"`pip install '{_WANTED}'` installs one that is not"
    )

from pipeann.milvus.async_client import AsyncMilvusClient
from pipeann.milvus.client import MilvusClient

__all__ = ["AsyncMilvusClient", "MilvusClient", "pymilvus"]
