"""The package as it is installed: version, typing, dependencies."""

from importlib import metadata, resources

import pipeann


def test_version_is_that_of_the_distribution() -> None:
    assert pipeann.__version__ == metadata.version("pipeann")


def test_everything_listed_is_there() -> None:
    assert all(hasattr(pipeann, name) for name in pipeann.__all__)


def test_types_are_shipped() -> None:
    package = resources.files("pipeann")
    assert package.joinpath("py.typed").is_file()
    assert package.joinpath("_native.pyi").is_file()


def test_numpy_is_the_only_dependency() -> None:
    requires = metadata.requires("pipeann") or []
    assert [r.split(">")[0].strip() for r in requires if "extra ==" not in r] == ["numpy"]


def test_the_extension_serves_every_later_python() -> None:
    assert pipeann._native.__file__ is not None
    assert ".abi3." in pipeann._native.__file__
