"""`kolo bench` on an emulated cluster that is made for it, one rank on each host."""
import json
import subprocess
import tempfile
from pathlib import Path

CLUSTER = Path(__file__).resolve().parent / "cluster"


class Failed(Exception):
    """A result is wrong, or nothing was measured."""


def bench(kolo, hosts, rate, *arguments, congestion=None):
    """(exit code, JSON lines, output) of `kolo bench`. congestion: as scripts/cluster's."""
    links = ["--rate", rate, *(["--congestion", congestion] if congestion else [])]
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.jsonl"
        done = subprocess.run([CLUSTER, "--hosts", str(hosts), *links, "--no-prefix", "--", kolo, "bench", *arguments,
                               "--json", results], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = results.read_text() if results.exists() else ""
        return done.returncode, [json.loads(line) for line in text.splitlines()], done.stdout


def only_result(lines):
    row, = (line for line in lines if line["type"] == "result")
    if row["wrong"]:
        raise Failed(f"{row['wrong']} wrong elements: {row}")
    return row


def measure_link(kolo, rate, congestion=None):
    """(row of one long message between two hosts, row of the machine). The message is large, so that the burst
    of a link's token bucket does not count."""
    code, lines, output = bench(kolo, 2, rate, "send_recv", "--sizes", "16M", "--iterations", "3",
                                congestion=congestion)
    if code != 0:
        raise Failed(f"the link cannot be measured:\n{output}")
    machine, = (line for line in lines if line["type"] == "machine")
    return only_result(lines), machine


def goodput(link):
    """Bytes of payload a second."""
    return link["bytes"] / link["median_us"] * 1e6
