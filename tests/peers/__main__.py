"""Test the server with official peers: `python -m tests.peers conformance`, or `clients`.

Exits with 1 if a peer finds a failure, and with 2 if one could not be installed.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.peers.client_runs import PEERS, run_client
from tests.peers.conformance import NOT_APPLICABLE, Suite, table
from tests.peers.installed import Unavailable
from tests.peers.serving import serving


def conformance() -> int:
    suite = Suite()
    runs = suite.runs()
    with tempfile.TemporaryDirectory() as folder, serving("conformance", Path(folder)) as server:
        before = server.names()
        verdicts = suite.judge(server.url, [r for r in runs if r.scenario not in NOT_APPLICABLE])
        is_up = server.names() == before
    print(table(verdicts))
    for name, why in NOT_APPLICABLE.items():
        print(f"not applicable: {name}: {why}")
    if not is_up:
        print("the server does not have the tools that it had before")
    return int(not is_up or any(verdict.wrong for verdict in verdicts))


def clients(names: list[str]) -> int:
    code = 0
    for name in names or PEERS:
        for transport in ("stdio", "http"):
            try:
                run = run_client(name, transport)
            except Unavailable as error:
                print(f"{name:10} {transport:5} not installed: {error}", flush=True)
                code = max(code, 2)
                continue
            verdict = "; ".join(run.wrong) or "ok"
            print(f"{name:10} {transport:5} {len(run.steps):2} steps: {verdict}", flush=True)
            if run.wrong:
                code = 1
                print(run.log[-3_000:])
    return code


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("conformance", help="the official suite")
    chosen = commands.add_parser("clients", help="the clients of official SDKs")
    chosen.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PEERS)}")
    options = parser.parse_args()
    if unknown := set(getattr(options, "names", ())) - PEERS.keys():
        parser.error(f"no such client: {', '.join(sorted(unknown))}")
    try:
        return conformance() if options.command == "conformance" else clients(options.names)
    except Unavailable as error:
        print(error)
        return 2


if __name__ == "__main__":
    sys.exit(main())
