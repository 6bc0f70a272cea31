"""Clusters of processes on this machine, with certificates, that end with the job."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import pipeann, places, rivals
from .cache import entry
from .curves import enclosing
from .ports import free_ports
from .processes import Row, json_lines
from .sets import VectorSet

# How often servers try to begin.
ATTEMPTS = 3


@dataclass(frozen=True)
class Servers:
    """How many servers there are, and what each of them has."""

    count: int
    threads: int
    in_flight: int
    memory_limit: str = "floor"
    # When a thread takes in its next search.
    discipline: str = "always"
    # Partitions of each; in order unless given.
    shares: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Cluster:
    """A cluster that listens."""

    topology: Path
    certificates: Path
    servers: Servers
    processes: tuple[int, ...] = ()
    cores: int | None = None

    def search(
        self, vectors: VectorSet, lists: Sequence[int], *, in_flight: int, policy: Sequence[str]
    ) -> list[Row]:
        """Searches through it; a row for each list, without recall where there is no truth."""
        truth: list[str | Path] = ["--truth", vectors.truth] if vectors.truth.exists() else []
        command: list[str | Path] = pipeann.pinned(self.cores)
        command += [pipeann.program(), "cluster", "search"]
        command += ["--topology", self.topology, *tls(self.certificates, "client")]
        command += ["--queries", vectors.queries, *truth, *policy]
        command += ["--in-flight", str(in_flight), "--json"]
        return enclosing(
            lambda chosen: json_lines([*command, "--list", rivals.lists_text(chosen)]), lists
        )

    def timed(
        self, vectors: VectorSet, lists: Sequence[int], *, in_flight: int, policy: Sequence[str]
    ) -> list[Row]:
        """As `search`, list by list, with the processor time a query took of all servers together
        (`server_us`) and of who asks (`client_us`, his start and the queries' file included)."""

        def ask(length: int) -> Row:
            servers, client = self.cpu_s(), children_cpu_s()
            (row,) = self.search(vectors, [length], in_flight=in_flight, policy=policy)
            servers, client = self.cpu_s() - servers, children_cpu_s() - client
            per_query = 1e6 / row["queries"]
            return row | {"server_us": servers * per_query, "client_us": client * per_query}

        return enclosing(lambda chosen: [ask(length) for length in chosen], lists)

    def cpu_s(self) -> float:
        """Processor time of all servers up to now."""
        return sum(cpu_s(process) for process in self.processes)

    def settle(self, quiet_s: float = 3.0, most_s: float = 600.0) -> None:
        """Waits until nobody reads: pages are read ahead of searches until memory is full."""
        deadline = time.monotonic() + most_s
        before = -1
        while (now := sum(read_bytes(process) for process in self.processes)) != before:
            if time.monotonic() > deadline:
                raise SystemExit(f"servers still read ahead after {most_s:g} s")
            before = now
            time.sleep(quiet_s)


def counted(script: str, *words: object, python: str | Path | None = None) -> Row:
    """What a script of `tests_py` counted, with the binary that is measured; its interpreter is that of
    the rivals that filter, where none is given."""
    os.environ["PIPEANN_BIN"] = str(pipeann.program())
    command = [python or rivals.filtered_python(), places.REPO / "tests_py" / script]
    (found,) = json_lines([*command, *map(str, words)])
    return found


def tests_python() -> str | Path:
    """The interpreter of this project's tests, which `make test` and `make python` make."""
    named = os.environ.get("PIPEANN_TEST_PYTHON")
    return named or places.REPO / ".venv" / "bin" / "python"


def cpu_s(process: int) -> float:
    """User and system time of a process up to now, in seconds."""
    # The name in parentheses may have spaces.
    numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def read_bytes(process: int) -> int:
    """What a process has read from storage up to now."""
    lines = Path(f"/proc/{process}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


def children_cpu_s() -> float:
    """That of the commands that ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tls(certificates: Path, name: str) -> list[str | Path]:
    """Who somebody is to the cluster, as words of the command line."""
    words: list[str | Path] = ["--tls-ca", certificates / "ca.pem"]
    return [*words, "--tls-cert", certificates / f"{name}.pem"] + [
        "--tls-key",
        certificates / f"{name}.key",
    ]


def separate_of(index: Path, partitions: int, servers: int, topology: Path) -> Path:
    """The cached indexes of each server's own rows of a cached index."""
    made = {"of": index.parent.name, "partitions": partitions, "servers": servers}

    def make(folder: Path) -> None:
        split = [pipeann.program(), "cluster", "split", "--topology", topology]
        split += ["--from", index, "--out", folder / "separate"]
        subprocess.run(split, check=True, stdout=subprocess.DEVNULL)

    made |= {"builder": pipeann.builder_identity()}
    return entry("pipeann-separate", made, make) / "separate"


def apart(index: Path, partitions: int, servers: int) -> Path:
    """The cached indexes of servers' own rows, with their centroids, for whoever counts and serves
    nothing."""
    with tempfile.TemporaryDirectory(prefix="pipeann-apart-") as kept:
        topology = Path(kept) / "cluster.toml"
        topology.write_text(topology_text(partitions, range(1, servers + 1)))
        return separate_of(index, partitions, servers, topology)


def topology_text(
    partitions: int, ports: Iterable[int], shares: Sequence[Sequence[int]] = ()
) -> str:
    """A topology of a server on each port; they share the partitions in order unless given."""
    text = f'cluster = "bench"\npartitions = {partitions}\n'
    for number, port in enumerate(ports):
        text += f'[[server]]\nnumber = {number}\naddress = "127.0.0.1:{port}"\n'
        if shares:
            text += f"partitions = {list(shares[number])}\n"
    return text


def even_shares(pages: Sequence[int], servers: int) -> tuple[tuple[int, ...], ...]:
    """Partitions of each server, so many on each, so that all have about as many pages."""
    shares: list[list[int]] = [[] for _ in range(servers)]
    for partition in sorted(range(len(pages)), key=lambda partition: -pages[partition]):
        open_ones = [share for share in shares if len(share) < -(-len(pages) // servers)]
        min(open_ones, key=lambda share: sum(pages[each] for each in share)).append(partition)
    return tuple(tuple(sorted(share)) for share in shares)


@contextmanager
def serving(
    index: Path,
    partitions: int,
    servers: Servers,
    *,
    separate: bool = False,
    replicas: bool = False,
    cores: int | None = None,
) -> Iterator[Cluster]:
    """Servers that share the partitions of an index in order; where asked for, each also has an
    index of its rows alone, or all of them read everything. `cores` keeps them and who asks them to so many."""
    with tempfile.TemporaryDirectory(prefix="pipeann-cluster-") as kept, ExitStack() as stack:
        topology, certificates = Path(kept) / "cluster.toml", Path(kept) / "certificates"

        def address() -> None:
            """Gives the servers ports, and certificates for these."""
            ports = free_ports(servers.count)
            topology.write_text(topology_text(partitions, ports, servers.shares))
            make = [pipeann.program(), "cluster", "certificates", "--topology", topology]
            shutil.rmtree(certificates, ignore_errors=True)
            subprocess.run([*make, "--out", certificates], check=True, stdout=subprocess.DEVNULL)

        address()
        own_rows = separate_of(index, partitions, servers.count, topology) if separate else None
        commands: list[list[str | Path]] = []
        for number in range(servers.count):
            command = [*pipeann.pinned(cores), pipeann.program(), "cluster", "serve"]
            command += ["--topology", topology, "--server", str(number)]
            command += ["--index", index, "--until-eof"]
            command += ["--threads", str(servers.threads), "--in-flight", str(servers.in_flight)]
            command += ["--memory-limit", servers.memory_limit, "--discipline", servers.discipline]
            command += tls(certificates, f"server-{number}")
            if replicas:
                command += ["--replica"]
            if own_rows is not None:
                command += ["--separate", own_rows / f"server-{number}"]
            commands.append(command)
        # taskset, and a script that calls the program, become it by exec.
        pids = tuple(process.pid for process in begun(commands, stack, address))
        yield Cluster(topology, certificates, servers, pids, cores)


def begun(
    commands: Sequence[Sequence[str | Path]], kept: ExitStack, elsewhere: Callable[[], None]
) -> list[subprocess.Popen[str]]:
    """Servers that all know each other, ended by `kept`. Somebody else may take a port before they
    do: then all try again `elsewhere`."""
    for attempt in range(ATTEMPTS):
        if attempt > 0:
            elsewhere()
        with ExitStack() as stack:
            processes = []
            for command in commands:
                # Each ends with its input, which is closed on leaving.
                pipe = subprocess.PIPE
                process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
                processes.append(stack.enter_context(process))
                if not told(process, "listens"):
                    break
            else:
                # Until then a query may need a second attempt.
                for process in processes:
                    if not told(process, "is connected"):
                        raise SystemExit("a server did not meet the others")
                kept.push(stack.pop_all())
                return processes
    raise SystemExit(f"a server did not begin, nor at {ATTEMPTS - 1} further attempts")


def told(process: subprocess.Popen[str], what: str) -> bool:
    """Whether the next line of a process says something; what it says else is printed."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if what not in line:
        print(f"a server said {line.strip() or 'nothing'!r} instead of that it {what}")
    return what in line
