"""What scripts/api-guide.sh runs: writes the pages of docs/guides/api, except errors.md.

Always: an action without an example stops the run.
Not here: the pages' contents (access.py, basics.py, clusters.py, objects.py, recovery.py, versions.py, texts/), the world (guide.py).
"""
import re
import sys

import access
import basics
import clusters
import objects
import recovery
import versions
from guide import Guide, World


def all_actions():
    table = re.search(r"ACTIONS.*?= &\[(.*?)\n\];", open("crates/door-http/src/request.rs").read(), re.S).group(1)
    return set(re.findall(r'\(\s*"([A-Z]\w+)"', table)) | objects.names() | access.names()


def main(folder):
    guide = Guide()
    with World() as world:
        basics.index(guide)
        basics.levels(guide, world)
        basics.retries(guide)
        basics.limits(guide)
        basics.keys(guide)
        basics.keyspaces(guide)
        versions.versions(guide)
        objects.write(guide)
        clusters.clusters(guide)
        recovery.skip(guide)
        clusters.redis(guide)
        clusters.world_actions(guide)
        basics.plain_routes(guide)
    with World("--secure"):
        # This world has every metric: it asks who a client is, and has client certificates.
        basics.metrics(guide)
        access.write(guide)
    with World("--nodes", "7", "--no-restart") as world:
        recovery.recover(guide, world)
    missing = all_actions() - guide.asked
    if missing:
        sys.exit(f"actions without an example: {sorted(missing)}")
    guide.write(folder)
    print(f"{folder}: {len(guide.pages)} pages, {len(guide.asked)} actions, {guide.exchanges} exchanges")


main(sys.argv[1])
