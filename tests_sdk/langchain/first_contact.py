"""A retrieval application of LangChain over stock `langchain-milvus`: first_contact.py HOST:PORT.

Each step asserts what it gets back. Texts are embedded by what letters they have, so that nearness
is known beforehand and no model is needed.
"""

import sys
from collections.abc import Callable
from string import ascii_lowercase

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_milvus import Milvus

TEXTS = {
    "cats": "a cat sat on the mat",
    "dogs": "dogs dig up good bones",
    "jazz": "jazz quartz buzz",
    "sums": "six and six is twelve",
}


class Letters(Embeddings):
    """How often each letter occurs."""

    def embed_query(self, text: str) -> list[float]:
        return [1.0 + text.count(letter) for letter in ascii_lowercase]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


def opened(address: str, **more: object) -> Milvus:
    """The store of this application; made when it is first written to."""
    return Milvus(
        embedding_function=Letters(),
        collection_name="langchain_texts",
        connection_args={"uri": f"http://{address}"},
        index_params={"index_type": "HNSW", "metric_type": "L2", "params": {"M": 16}},
        **more,
    )


def documents() -> list[Document]:
    """A document of each text."""
    return [
        Document(text, metadata={"topic": topic, "length": len(text)})
        for topic, text in TEXTS.items()
    ]


def topics(found: list[Document]) -> list[str]:
    """What documents are about, as found."""
    return [document.metadata["topic"] for document in found]


def fill_and_search(address: str) -> None:
    """Documents are added by name, and found by what is like them."""
    store = opened(address, auto_id=False, drop_old=True)
    assert store.add_documents(documents(), ids=list(TEXTS)) == list(TEXTS)
    assert topics(store.similarity_search("the cat sat on a mat", k=1)) == ["cats"]
    ((best, score), *_) = store.similarity_search_with_score("jazz quartz buzz", k=2)
    assert (best.metadata["topic"], score) == ("jazz", 0.0)
    assert best.page_content == TEXTS["jazz"]
    by_vector = store.similarity_search_by_vector(Letters().embed_query(TEXTS["sums"]), k=1)
    assert topics(by_vector) == ["sums"]


def filter_and_retrieve(address: str) -> None:
    """A filter over the metadata, and the forms in which chains ask; by a second application."""
    store = opened(address, auto_id=False)
    found = store.similarity_search("the cat sat on a mat", k=4, expr="length > 20")
    assert set(topics(found)) == {"dogs", "sums"}
    retriever = store.as_retriever(search_kwargs={"k": 1})
    assert topics(retriever.invoke("dogs dig bones")) == ["dogs"]
    varied = store.max_marginal_relevance_search("a cat sat on the mat", k=2, fetch_k=4)
    assert len(varied) == 2 and topics(varied)[0] == "cats"


def change(address: str) -> None:
    """Documents are replaced and deleted."""
    store = opened(address, auto_id=False)
    later = Document("zebras zigzag", metadata={"topic": "zebras", "length": 13})
    store.upsert(ids=["jazz"], documents=[later])
    assert topics(store.similarity_search("jazz quartz buzz", k=4)).count("jazz") == 0
    (nearest,) = store.similarity_search("zebras zigzag", k=1)
    assert (nearest.page_content, nearest.metadata["topic"]) == ("zebras zigzag", "zebras")
    assert store.delete(ids=["cats"])
    assert len(store.similarity_search("a cat sat on the mat", k=10)) == 3
    assert store.delete(expr="topic == 'dogs'")
    assert set(topics(store.similarity_search("a", k=10))) == {"zebras", "sums"}


def from_texts(address: str) -> None:
    """The short form, with keys that the server gives."""
    store = Milvus.from_texts(
        list(TEXTS.values()),
        Letters(),
        metadatas=[{"topic": topic} for topic in TEXTS],
        collection_name="langchain_short",
        connection_args={"uri": f"http://{address}"},
        drop_old=True,
    )
    assert topics(store.similarity_search("six and six", k=1)) == ["sums"]
    store.drop()


def main() -> None:
    """Takes the steps in turn."""
    address = sys.argv[1]
    steps: list[Callable[[str], None]] = [fill_and_search, filter_and_retrieve, change, from_texts]
    for step in steps:
        step(address)
        print(f"{step.__name__} passed")


if __name__ == "__main__":
    main()
