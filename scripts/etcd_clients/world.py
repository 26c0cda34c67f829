"""A world of three nodes (`hive dev`) for clients of etcd: its doors, its leader, nodes that are killed. Ends what it started, by its id."""

import json
import os
import signal
import subprocess
import time
import urllib.request

START_TIMEOUT_S = 180
BACK_TIMEOUT_S = 90


class World:
    def __init__(self, hive, folder, base_port, nodes=3, more=()):
        self.ready_file = os.path.join(folder, "ready.json")
        self.log_path = os.path.join(folder, "dev.log")
        command = [os.path.abspath(hive), "dev", "--fresh", "--nodes", str(nodes), "--data", os.path.join(folder, "world"),
                   "--base-port", str(base_port), "--ready-file", self.ready_file, *more]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self.ready = self.wait_ready()
        except BaseException:
            self.stop()
            raise
        self.endpoints = [node["etcd"] for node in self.ready["nodes"]]

    def wait_ready(self):
        until = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < until and self.process.poll() is None:
            try:
                return self.now()
            except (FileNotFoundError, json.JSONDecodeError):
                time.sleep(0.1)
        with open(self.log_path, errors="replace") as log:
            raise SystemExit(f"hive dev was not ready within {START_TIMEOUT_S} s, or ended:\n{log.read()[-4000:]}")

    def now(self):
        with open(self.ready_file) as file:
            return json.load(file)

    def kill(self, node):
        """kill -9 of a node by its id; `hive dev` starts it again after five seconds. The process that was killed."""
        process = next(known["pid"] for known in self.now()["nodes"] if known["id"] == node)
        os.kill(process, signal.SIGKILL)
        return process

    def wait_back(self, node, killed):
        until = time.monotonic() + BACK_TIMEOUT_S
        while time.monotonic() < until:
            known = next(known for known in self.now()["nodes"] if known["id"] == node)
            try:
                if known["pid"] != killed and urllib.request.urlopen(known["http"] + "/ready", timeout=5).status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        raise AssertionError(f"node {node} did not come back within {BACK_TIMEOUT_S} s")

    def act(self, **action):
        """An action of the JSON API, at the first node."""
        request = urllib.request.Request(self.ready["nodes"][0]["http"], data=json.dumps(action).encode())
        with urllib.request.urlopen(request, timeout=25) as answer:
            return json.load(answer)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
