"""The pages under construction, and the world that answers their requests.

Always: every exchange on a page was made while this program ran; an answer with another status than the
text says stops the run. Ends only the processes that it started.
Not here: what is asked (the other files of this folder), hand-written passages (texts/).
"""
import ctypes
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HIVE = os.path.abspath(os.environ["HIVE"])
BASE_PORT = int(os.environ.get("API_GUIDE_BASE_PORT", "7000"))
TEXTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "texts")
LINE_BYTES = 130
# The pages show the ports of a `hive dev` without options, whatever the run's own are.
SHOWN_BASE_PORT = 7000
# How long an exchange that waits for something may take.
WAIT_SECONDS = 90
# `hive dev` starts a killed node again after 5 s.
RESTART_SECONDS = 6


# The authority and root's token of the world that is asked, where it is a secure one.
secured = None


def url(node, path="/"):
    return f"http{'s' if secured else ''}://127.0.0.1:{BASE_PORT + 100 + node}{path}"


def fetch(node, path="/", data=None, token=None):
    request = urllib.request.Request(url(node, path), data=data)
    trust = None
    if secured:
        trust = ssl.create_default_context(cafile=secured["ca"])
        request.add_header("Authorization", f"Bearer {token or secured['token']}")
    try:
        with urllib.request.urlopen(request, timeout=40, context=trust) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def layout(value, indent=0):
    """JSON on one line where it fits, else one member a line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= LINE_BYTES or not isinstance(value, (dict, list)) or not value:
        return flat
    pad, end = " " * (indent + 2), " " * indent
    if isinstance(value, list):
        return "[\n" + ",\n".join(pad + layout(item, indent + 2) for item in value) + f"\n{end}]"
    rows = [f"{pad}{json.dumps(name)}: {layout(item, indent + 2)}" for name, item in value.items()]
    return "{\n" + ",\n".join(rows) + f"\n{end}}}"


def shown_address(found):
    port = int(found.group(1))
    if BASE_PORT <= port < BASE_PORT + 1000:
        port += SHOWN_BASE_PORT - BASE_PORT
    return f"127.0.0.1:{port}"


class Guide:
    """All pages. `page` begins one, or continues it; what follows is written to that page."""

    def __init__(self):
        self.pages = {}
        self.asked = set()
        self.exchanges = 0
        self.out = None

    def page(self, file, title=None, text=None):
        self.out = self.pages.setdefault(file, [])
        if title:
            self.say(f"# {title}")
            self.say(text or "")

    def say(self, text):
        self.out.append(text.strip("\n") + "\n")

    def include(self, file):
        """A hand-written passage."""
        with open(os.path.join(TEXTS, file)) as text:
            self.say(text.read())

    def ask(self, body, node=1, token=None):
        status, answer = fetch(node, data=json.dumps(body).encode(), token=token)
        return status, json.loads(answer)

    def show(self, body, status=200, node=1, wait=None, token=None):
        """Asks and writes down; `wait` repeats until the answer satisfies it; `token` instead of root's."""
        self.asked.add(body["action"])
        end = time.monotonic() + WAIT_SECONDS
        got, answer = self.ask(body, node, token)
        while wait and not wait(answer) and time.monotonic() < end:
            time.sleep(0.2)
            got, answer = self.ask(body, node, token)
        if got != status:
            sys.exit(f"{body} answered {got}, not {status}: {answer}")
        self.exchanges += 1
        self.out.append(f"```json\n{layout(body)}\n```\n\n`{got}`\n\n```json\n{layout(answer)}\n```\n")
        return answer

    def plain(self, path, status=200, node=1, posted=None, lines=None):
        """A plain route, as curl shows it."""
        got, body = fetch(node, path, posted)
        if got != status:
            sys.exit(f"{path} answered {got}, not {status}: {body}")
        text = body.decode(errors="backslashreplace")
        if lines:
            text = "\n".join(text.splitlines()[:lines]) + "\n…"
        data = f" --data-binary '{posted.decode()}'" if posted else ""
        self.exchanges += 1
        empty = "" if text.strip() else ", an empty body"
        self.out.append(f"```text\n$ curl -s{data} '{url(node, path)}'\n{text.rstrip()}\n```\n\n`{got}`{empty}\n")

    def write(self, folder):
        """Writes all pages; the index lists them with their actions."""
        index = []
        for file, parts in self.pages.items():
            title = parts[0].splitlines()[0].removeprefix("# ")
            headings = [name for name in re.findall(r"^## (.*)$", "\n".join(parts), re.M) if " of " not in name]
            if file != "README.md":
                index.append(f"- [{title}]({file}): {', '.join(headings)}" if headings else f"- [{title}]({file})")
        os.makedirs(folder, exist_ok=True)
        for file, parts in self.pages.items():
            text = "\n".join(part for part in parts if part.strip()).replace("{{pages}}", "\n".join(index))
            text = re.sub(r"127\.0\.0\.1:(\d+)", shown_address, text)
            with open(os.path.join(folder, file), "w") as page:
                page.write(text)


class World:
    """A `hive dev` of its own, in a directory that is removed at the end."""

    def __init__(self, *more):
        self.data = tempfile.mkdtemp(prefix="hive-api-guide-")
        self.ready = os.path.join(self.data, "ready.json")
        self.log = open(os.path.join(self.data, "dev.log"), "wb")
        self.started = []
        words = ["dev", "--base-port", str(BASE_PORT), "--data", os.path.join(self.data, "world"), "--ready-file", self.ready]
        world = self._start([*words, *more])
        end = time.monotonic() + 100
        while not os.path.exists(self.ready):
            if world.poll() is not None or time.monotonic() > end:
                sys.exit(open(self.log.name).read())
            time.sleep(0.1)
        global secured
        secured = json.load(open(self.ready)) if "--secure" in more else None

    def _start(self, words):
        dies_with_us = lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        process = subprocess.Popen([HIVE, *words], stdout=self.log, stderr=self.log, preexec_fn=dies_with_us)
        self.started.append(process)
        return process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            process.terminate()
        for process in self.started:
            process.wait()
        shutil.rmtree(self.data, ignore_errors=True)

    def kill(self, node):
        pid = next(each["pid"] for each in json.load(open(self.ready))["nodes"] if each["id"] == node)
        os.kill(pid, signal.SIGKILL)

    def start_node(self, node):
        """For worlds with `--no-restart`."""
        self._start(["node", "--config", os.path.join(self.data, "world", f"node-{node}", "node.toml")])

    def wait_all_up(self, guide):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if all(node["up"] for node in guide.ask({"action": "ListNodes"})[1].get("nodes", [{"up": False}])):
                return
            time.sleep(0.2)
        sys.exit("a killed node did not come back")
