"""``python -m pipeann.server``: starts the server for clients of Milvus.

The server is a program of its own. It is looked for in ``$PIPEANN_SERVER_BIN``, in this package, in
the build tree that this package was installed from, and in ``$PATH``, in this order: under the name
``pipeann_milvus_server``, or as the command ``pipeann``, of which it is a part. Where there is none,
this process becomes the server: the package has all of it in its native half, and installs that as
the program ``pipeann_milvus_server`` too. All arguments are passed on; ``--help`` lists them, under
the name that was called.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "PIPEANN_SERVER_BIN"
SERVER = "pipeann_milvus_server"
COMMAND = "pipeann"


def _folders() -> Iterator[Path]:
    package = Path(__file__).resolve().parent
    yield package / "bin"
    tree = package.parents[1]
    if (tree / "Cargo.toml").is_file():
        target = Path(os.environ.get("CARGO_TARGET_DIR", tree / "target"))
        yield target / "release"
        yield target / "debug"


def _candidates() -> Iterator[Path]:
    named = os.environ.get(VARIABLE)
    if named:
        # Whoever names a program wants this one and no other.
        yield Path(named)
        return
    for folder in _folders():
        yield folder / SERVER
        yield folder / COMMAND
    for name in (SERVER, COMMAND):
        found = shutil.which(name)
        if found:
            yield Path(found)


def command() -> list[str]:
    """The program and its first arguments.

    Raises:
        FileNotFoundError: There is none in any of the places.
    """
    tried = []
    for path in _candidates():
        if path.is_file() and os.access(path, os.X_OK):
            return [str(path)] if path.name == SERVER else [str(path), "serve"]
        tried.append(str(path))
    places = ", ".join(tried) or "$PATH"
    raise FileNotFoundError(f"no server found in {places}; name it with {VARIABLE}")


def _called() -> str:
    """The name by which people called this, to be told by the server."""
    name = Path(sys.argv[0]).name
    if name == Path(__file__).name:
        return "python -m pipeann.server"
    return name if name in ("pipeann-server", SERVER) else SERVER


def serve_here() -> None:
    """Becomes the server without looking for a program of it."""
    from pipeann._native import serve

    try:
        serve([_called(), *sys.argv[1:]])
    except RuntimeError as error:
        sys.exit(f"pipeann: {error}")


def main() -> None:
    """Becomes the server: the program that is found, or else this process."""
    try:
        found = command()
    except FileNotFoundError as error:
        if os.environ.get(VARIABLE):
            sys.exit(f"pipeann-server: {error}")
        return serve_here()
    # Where it is a part of another command it goes by that one's name.
    name = found if len(found) > 1 else [_called()]
    os.execv(found[0], [*name, *sys.argv[1:]])


if __name__ == "__main__":
    main()
