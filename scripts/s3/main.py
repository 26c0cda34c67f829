"""Runs the S3 client cases and tells which call was tested by which client.

    --hive PROGRAM      in a world of five nodes (`hive dev`), clients at different nodes
    --server PROGRAM    over metadata in memory (example s3_memory of door-s3)
    --endpoint URL      at gateways that run already

No case but those of cases_world.py knows which it is.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback

import dev
import guide
import world

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def start_server(program, folder):
    server = subprocess.Popen([program, "127.0.0.1:0", folder, "localhost", "site.localhost"], stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline().strip()
    if not line.startswith("ready "):
        raise SystemExit(f"{program} did not start: {line}")
    return server, "http://" + line.split()[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hive")
    parser.add_argument("--base-port", type=int, default=29000)
    parser.add_argument("--keep", action="store_true", help="leave the world's data behind")
    parser.add_argument("--server")
    parser.add_argument("--endpoint")
    parser.add_argument("--only", default="")
    parser.add_argument("--write-guide", action="store_true")
    options = parser.parse_args()
    server, nodes = None, None
    folder = tempfile.mkdtemp(prefix="s3-clients-")
    try:
        endpoints = [options.endpoint]
        if options.hive:
            nodes = dev.Dev(options.hive, folder, options.base_port)
            endpoints = nodes.endpoints
        elif not options.endpoint:
            server, endpoint = start_server(options.server, os.path.join(folder, "data"))
            endpoints = [endpoint]
        failed = run(endpoints, folder, nodes, options)
    finally:
        if nodes:
            nodes.stop()
        if server:
            server.terminate()
            server.wait()
        if options.keep:
            print(f"left behind: {folder}")
        else:
            subprocess.run(["rm", "-rf", folder], check=False)
    sys.exit(1 if failed else 0)


def run(endpoints, folder, nodes, options):
    import cases_bad_input  # noqa: F401 (they register themselves)
    import cases_listings  # noqa: F401
    import cases_multipart  # noqa: F401
    import cases_objects  # noqa: F401
    import cases_outside  # noqa: F401
    import cases_settings  # noqa: F401
    import cases_signed  # noqa: F401
    import cases_sites  # noqa: F401
    import cases_tools  # noqa: F401
    if nodes:
        import cases_world  # noqa: F401

    here = world.World(endpoints, folder, nodes)
    passed, failed = 0, []
    for case in world.CASES:
        if options.only not in f"{case.function.__module__}.{case.name}":
            continue
        start = time.monotonic()
        try:
            case.function(here)
        except Exception:
            failed.append(case.name)
            print(f"FAILED {case.client:8} {case.name}")
            traceback.print_exc()
            continue
        passed += 1
        here.tested(case.client, case.calls)
        print(f"ok     {case.client:8} {case.name} ({time.monotonic() - start:.1f} s)", flush=True)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    os.makedirs(target, exist_ok=True)
    if not options.only and not failed:
        with open(os.path.join(target, "s3-clients.json"), "w") as out:
            json.dump({call: sorted(clients) for call, clients in sorted(here.seen.items())}, out, indent=1)
        wrong = guide.check_or_write(ROOT, here.seen, options.write_guide)
        if wrong:
            failed.append("docs/guides/s3.md")
            print(f"FAILED guide: {wrong}")
    print(f"{passed} passed, {len(failed)} failed")
    return failed


if __name__ == "__main__":
    main()
