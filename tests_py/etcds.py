"""An etcd of several members on this machine, and an etcd with certificates and users."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import urllib.request
from contextlib import suppress
from pathlib import Path

from clusters import Cluster, Etcd, free_port, until


class Member:
    """One of several."""

    def __init__(self, name: str, data: Path) -> None:
        self.name, self.data = name, data
        self.url = f"http://127.0.0.1:{free_port()}"
        self.peers = f"http://127.0.0.1:{free_port()}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, all_of_them: str) -> None:
        """Starts it, unless it runs."""
        if self.process is not None:
            return
        found = shutil.which("etcd")
        assert found, "etcd is missing; Debian's package etcd-server has it"
        command = [
            *(found, "--name", self.name, "--data-dir", str(self.data), "--log-level", "error"),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *("--listen-peer-urls", self.peers, "--initial-advertise-peer-urls", self.peers),
            *("--initial-cluster", all_of_them),
        ]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdout=quiet, stderr=quiet)

    def kill(self) -> None:
        """Ends it at once; its data stays."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=30)
            self.process = None

    def figure(self, name: str) -> float | None:
        """What it tells of itself; nothing where it does not answer."""
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/metrics", timeout=2) as found:
            for line in found.read().decode().splitlines():
                if line.startswith(f"{name} "):
                    return float(line.split()[1])
        return None

    def answers(self) -> bool:
        """Whether it is well, which takes a majority."""
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=2) as found:
            return json.load(found)["health"] == "true"
        return False


class Etcds:
    """Three members, any of which takes calls; it is used as `Etcd` is."""

    def __init__(self, folder: Path) -> None:
        names = [f"member-{number}" for number in range(3)]
        self.members = [Member(name, folder / name) for name in names]
        self.url = ",".join(member.url for member in self.members)

    def start(self) -> None:
        """Starts those that do not run, and waits until all are well."""
        all_of_them = ",".join(f"{each.name}={each.peers}" for each in self.members)
        for member in self.members:
            member.start(all_of_them)
        for member in self.members:
            until("etcd", member.answers)

    def kill(self) -> None:
        """Ends all."""
        for member in self.members:
            member.kill()

    def wipe(self) -> None:
        """Takes their data away."""
        for member in self.members:
            shutil.rmtree(member.data, ignore_errors=True)

    def lose_majority(self) -> None:
        """Kills all but the one that leads, and waits until that has noticed: it answers and can do nothing."""
        leads = next(each for each in self.members if each.figure("etcd_server_is_leader") == 1)
        for member in self.members:
            if member is not leads:
                member.kill()
        until("an etcd without a leader", lambda: leads.figure("etcd_server_has_leader") == 0)


def with_members(cluster: Cluster) -> Etcds:
    """Gives a cluster that does not run yet an etcd of three members."""
    made = Etcds(cluster.root / "etcds")
    for server in cluster.servers:
        server.flags[server.flags.index("--etcd") + 1] = made.url
    cluster.etcd = made  # type: ignore[assignment]
    return made


class GuardedEtcd(Etcd):
    """An etcd that shows a certificate, asks for one, and asks who calls: root, with a password."""

    PASSWORD = "etcd-secret"

    def __init__(self, data: Path, certificates: Path) -> None:
        super().__init__(data)
        self.certificates = certificates
        self.url = self.url.replace("http:", "https:")
        # Of its clients alone: it has no peers.
        self.command = [
            word.replace("http:", "https:") if flag.endswith("client-urls") else word
            for flag, word in zip(["", *self.command], self.command, strict=False)
        ]
        self.command += [
            *("--cert-file", str(certificates / "127.0.0.1.pem")),
            *("--key-file", str(certificates / "127.0.0.1.key")),
            *("--trusted-ca-file", str(certificates / "ca.pem"), "--client-cert-auth"),
        ]

    def flags(self) -> list[str]:
        """What a server is told of it."""
        of = self.certificates
        return [
            *("--etcd", self.url, "--etcd-user", f"root:{self.PASSWORD}"),
            *("--etcd-ca", str(of / "ca.pem"), "--etcd-cert", str(of / "client.pem")),
            *("--etcd-key", str(of / "client.key")),
        ]

    def post(self, path: str, **what: str) -> dict:
        """A call by its gateway."""
        asked = urllib.request.Request(f"{self.url}/v3/{path}", json.dumps(what).encode())
        shown = {"context": self.tls(self.certificates), "timeout": 10}
        with urllib.request.urlopen(asked, **shown) as found:
            return json.load(found)

    def guard(self) -> None:
        """Has it ask who calls, from now on."""
        self.post("auth/user/add", name="root", password=self.PASSWORD)
        self.post("auth/role/add", name="root")
        self.post("auth/user/grant", user="root", role="root")
        self.post("auth/enable")

    @staticmethod
    def tls(certificates: Path) -> ssl.SSLContext:
        """What a client trusts and shows."""
        context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
        identity = (certificates / "client.pem", certificates / "client.key")
        context.load_cert_chain(*map(str, identity))
        return context

    def _answers(self) -> bool:
        shown = {"context": self.tls(self.certificates), "timeout": 1}
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/health", **shown) as found:
            return json.load(found)["health"] == "true"
        return False
