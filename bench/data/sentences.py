"""Real sentences from the documentation inside published Python packages.

The packages are pinned and read as archives, never installed, so every machine gets
the same sentences in the same order. Each contributes at most its share, lest one
subject outweigh the rest.
"""

from __future__ import annotations

import gzip
import html
import random
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

# requirement: largest number of sentences taken from it
SOURCES = {
    "Django==5.2": 24_000,
    "ansible==11.9.0": 30_000,
    "botocore==1.40.0": 30_000,
    "nltk==3.9.1": 8_000,
    "pandas==2.3.1": 12_000,
    "scikit-learn==1.7.1": 12_000,
    "scipy==1.16.0": 16_000,
    "sympy==1.14.0": 16_000,
}
WORDS = range(4, 19)

QUOTED = re.compile(r'"""(.+?)"""|\'\'\'(.+?)\'\'\'', re.S)
COMMENTS = re.compile(r"(?:^[ \t]*#[ \t].*\n)+", re.M)
SERVICE_TEXT = re.compile(r'"documentation":\s*"((?:[^"\\]|\\.)+)"')
TAGS = re.compile(r"<[^>]+>")
PARAGRAPHS = re.compile(r"\n\s*\n|\n\s*[-*]\s|\n\s*\w+:\s*\n")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
MARKUP = re.compile(r":\w+(?::\w+)?:|[`*]{1,3}|\|br\||\b[A-Z]\((?=[^)]*\))")
PLAIN = re.compile(r"[A-Z][A-Za-z0-9 ,;:'\"()/_.%-]*[.!?]")


def download(requirement: str, folder: Path) -> Path:
    """The archive of one pinned package, fetched once into `folder`."""
    name, release = requirement.split("==")
    pattern = f"{name.replace('-', '_')}-{release}[-.]*"
    if not list(folder.glob(pattern)):
        kind = "--no-binary" if name == "Django" else "--only-binary"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", kind, ":all:"]
        command += ["--python-version", "3.11", "--dest", str(folder), requirement]
        subprocess.run(command, check=True)
    return next(folder.glob(pattern))


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every file in a wheel or a source archive, in order of name."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in sorted(wheel.namelist()):
                yield name, wheel.read(name)
    else:
        with tarfile.open(archive) as tar:
            for member in sorted(tar.getmembers(), key=lambda m: m.name):
                if member.isfile() and (content := tar.extractfile(member)):
                    yield member.name, content.read()


def prose(name: str, content: bytes) -> Iterator[str]:
    """The stretches of text a file carries: prose, docstrings, comments, service texts."""
    if name.endswith("service-2.json.gz"):
        text = gzip.decompress(content).decode()
        for found in SERVICE_TEXT.finditer(text):
            yield html.unescape(TAGS.sub(" ", found[1].replace("</p>", "\n\n")))
    elif name.endswith((".txt", ".rst", ".md")) and "/locale/" not in name:
        yield content.decode(errors="ignore")
    elif name.endswith(".py"):
        text = content.decode(errors="ignore")
        for found in QUOTED.finditer(text):
            yield found[1] or found[2]
        for found in COMMENTS.finditer(text):
            yield re.sub(r"^[ \t]*#", "", found[0], flags=re.M)


def split(text: str) -> Iterator[str]:
    """The plain English sentences of a stretch of text."""
    for paragraph in PARAGRAPHS.split(text):
        for sentence in SENTENCE_END.split(" ".join(MARKUP.sub("", paragraph).split())):
            letters = sum(c.isalpha() or c == " " for c in sentence)
            if (
                len(sentence.split()) in WORDS
                and letters > 0.88 * len(sentence)
                and PLAIN.fullmatch(sentence)
            ):
                yield sentence


def collect(folder: Path, seed: int) -> list[str]:
    """Distinct sentences of all sources in an order that the seed decides."""
    rng = random.Random(seed)
    seen: set[str] = set()
    chosen: list[str] = []
    for requirement, share in SOURCES.items():
        found: list[str] = []
        for name, content in members(download(requirement, folder)):
            for text in prose(name, content):
                for sentence in split(text):
                    key = sentence.casefold()
                    if key not in seen:
                        seen.add(key)
                        found.append(sentence)
        rng.shuffle(found)
        print(f"{requirement}: {len(found)} sentences, {min(share, len(found))} taken", flush=True)
        chosen += found[:share]
    rng.shuffle(chosen)
    return chosen
