"""What benchmarks of servers are made of, without servers: ports, the end, processor time."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

pytest.importorskip("pymilvus")

import copies
from answering import Answering
from clusters import PORTS, Server, free_port, is_free, until

from forms.versions import all_forms

HERE = Path(__file__).parent


def test_ports_are_below_those_of_outgoing_connections_and_nobody_elses() -> None:
    given = [free_port() for _ in range(20)]
    assert len(set(given)) == 20
    assert set(given) <= set(PORTS)
    # Another process that draws takes the datagrams' port first.
    with socket.socket(type=socket.SOCK_DGRAM) as theirs, pytest.raises(OSError):
        theirs.bind(("127.0.0.1", given[0]))
    assert is_free(given[0])
    with socket.create_server(("127.0.0.1", given[0])):
        assert not is_free(given[0])


def test_what_a_script_started_ends_with_it() -> None:
    text = """
import time
from clusters import unwind_at_end
unwind_at_end()
try:
    print("begins", flush=True)
    time.sleep(60)
finally:
    print("ends what it started")
"""
    command = [sys.executable, "-c", text]
    with subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        process.terminate()
        assert process.stdout.read() == "ends what it started\n"
        assert process.wait(timeout=30) == 128 + signal.SIGTERM


def started(folder: Path, *, fails: bool) -> Path:
    """Stands for an interpreter that runs the forms with a server, whose number it tells."""
    program = folder / ("fails" if fails else "waits")
    last = "exit 3" if fails else "wait"
    # Without our pipes, whose end would be waited for.
    serve = f"sleep 600 > {os.devnull} 2>&1 &\necho $! > {program}.server"
    program.write_text(f"#!/bin/sh\n{serve}\n{last}\n")
    program.chmod(0o755)
    return program


def servers_are_gone(folder: Path) -> bool:
    """Whether no server of `started` runs any more."""
    numbers = [int(file.read_text()) for file in folder.glob("*.server")]
    assert len(numbers) == 2
    return not any(runs(number) for number in numbers)


def runs(process: int) -> bool:
    """Whether it does; one that nobody has waited for yet does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_forms_that_fail_end_the_others_and_all_servers(tmp_path: Path) -> None:
    waits, fails = (started(tmp_path, fails=fails) for fails in (False, True))
    ready = tmp_path / "waits.server"

    # The one that waits has to have begun.
    class Late(subprocess.Popen):  # type: ignore[type-arg]
        def communicate(self, *args: object, **named: object) -> tuple[str, str]:
            until("both", lambda: ready.exists() and ready.read_text() != "")
            return super().communicate(*args, **named)  # type: ignore[arg-type,return-value]

    with mock.patch("subprocess.Popen", Late), pytest.raises(RuntimeError, match="ended with 3"):
        all_forms(tmp_path, tmp_path, [fails, waits])
    assert servers_are_gone(tmp_path)


def test_forms_end_with_their_servers_by_sigterm(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    pythons = [str(started(folder, fails=False)) for folder in folders]
    text = f"""
from pathlib import Path
from forms.versions import all_forms
all_forms(Path("x"), Path("x"), {pythons})
"""
    told = [folder / "waits.server" for folder in folders]
    with subprocess.Popen([sys.executable, "-c", text], cwd=HERE) as process:
        until("servers", lambda: all(file.exists() and file.read_text() for file in told))
        process.terminate()
        assert process.wait(timeout=60) == -signal.SIGTERM
    assert not any(runs(int(file.read_text())) for file in told)


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_rows_are_compared_as_the_set_says(metric: str) -> None:
    client = mock.MagicMock()
    copies.create(client, 4, metric)
    index = client.prepare_index_params.return_value.add_index
    index.assert_called_once_with("v", index_type="DISKANN", metric_type=metric.upper())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """What listens on its port and says so, and nothing more."""
    program = tmp_path / "server"
    program.write_text(f"""#!{sys.executable}
import socket, sys, time
port = int(sys.argv[sys.argv.index("--port") + 1])
with socket.create_server(("127.0.0.1", port)):
    print(f"listening on 127.0.0.1:{{port}}", flush=True)
    time.sleep(60)
""")
    program.chmod(0o755)
    made = Server(tmp_path / "data", "")
    made.program, made.port = program, free_port()
    yield made
    made.kill()


def test_a_server_waits_for_a_port_that_somebody_else_has(server: Server) -> None:
    with socket.create_server(("127.0.0.1", server.port)) as theirs:
        server.begin()
        assert server.process is not None
        assert server.process.wait(timeout=30) != 0
        ends = threading.Timer(0.5, theirs.close)
        ends.start()
        assert server.listens() == f"127.0.0.1:{server.port}"
        ends.join()


def test_a_server_that_does_not_begin_is_not_tried_again(server: Server) -> None:
    assert server.program is not None
    server.program.write_text(f"#!{sys.executable}\nraise SystemExit(1)\n")
    with pytest.raises(AssertionError):
        server.start()


def test_what_a_server_does_not_say_in_time_is_an_error(server: Server) -> None:
    server.start()
    with pytest.raises(AssertionError, match=r"it said nothing in 0\.2 s"):
        server.says(0.2)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux's /proc")
def test_processor_time_of_a_thread_that_ended_is_kept() -> None:
    looked, ended = threading.Event(), threading.Event()

    def work() -> None:
        here = Path(f"/proc/self/task/{threading.get_native_id()}")
        (here / "comm").write_text("search")
        while time.thread_time() < 0.2:
            pass
        ended.set()
        looked.wait(30)

    server = SimpleNamespace(process=SimpleNamespace(pid=os.getpid()))
    answering = Answering([server])  # type: ignore[list-item]
    before = answering.total_s()
    worker = threading.Thread(target=work)
    worker.start()
    assert ended.wait(30)
    seen = answering.total_s() - before
    looked.set()
    worker.join()
    assert seen >= 0.15
    assert answering.total_s() - before >= seen
    server.process = None
    answering.join(30)
    assert not answering.is_alive()
