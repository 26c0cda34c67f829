"""A world of five nodes for the cases: `hive dev`, two accounts, nodes that can be killed."""

import json
import os
import signal
import subprocess
import time
import urllib.request

START_TIMEOUT_S = 180
RETURN_TIMEOUT_S = 90
SPLIT_KEYS = 2000


class Dev:
    def __init__(self, hive, folder, base_port, nodes=5, more=(), env=None):
        self.hive, self.folder, self.base_port = os.path.abspath(hive), folder, base_port
        self.ready_file = os.path.join(folder, "ready.json")
        self.log_path = os.path.join(folder, "dev.log")
        command = [self.hive, "dev", "--fresh", "--nodes", str(nodes), "--data", os.path.join(folder, "world"),
                   "--base-port", str(base_port), "--ready-file", self.ready_file, "--s3-split-keys", str(SPLIT_KEYS), *more]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, **(env or {})})
        try:
            self.ready = self.wait_ready()
            self.make_accounts()
        except BaseException:
            self.stop()
            raise
        self.endpoints = [node["s3"] for node in self.ready["nodes"]]

    def wait_ready(self):
        patience = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < patience:
            try:
                with open(self.ready_file) as file:
                    return json.load(file)
            except (FileNotFoundError, json.JSONDecodeError):
                pass
            if self.process.poll() is not None:
                raise SystemExit(f"hive dev ended with {self.process.returncode}:\n{self.log()}")
            time.sleep(0.1)
        raise SystemExit(f"hive dev was not ready within {START_TIMEOUT_S} s:\n{self.log()}")

    def make_accounts(self):
        for account in ("demo", "other"):
            self.ctl("s3", "account", "create", account, "--display-name", account)
            self.ctl("s3", "key", "create", account, "--access-key", f"{account}-access-key",
                     "--secret-key-file", "-", given=f"{account}-secret-key")

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()[-4000:]

    def http(self, number):
        return self.ready["nodes"][number % 5]["http"]

    def ctl(self, *words, given=None):
        """`hive ctl …`, asked of all nodes in turn; its output."""
        endpoints = ",".join(node["http"] for node in self.ready["nodes"])
        command = [self.hive, "ctl", *words, "--endpoint", endpoints, "--deadline-ms", "25000"]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise AssertionError(f"hive ctl {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def kill(self, number):
        """kill -9; `hive dev` starts the node again after five seconds."""
        with open(self.ready_file) as file:
            pid = json.load(file)["nodes"][number % 5]["pid"]
        os.kill(pid, signal.SIGKILL)
        return pid

    def is_back(self, number, pid):
        """Whether a killed node is there again, with another process, and ready."""
        with open(self.ready_file) as file:
            now = json.load(file)["nodes"][number % 5]["pid"]
        try:
            return now != pid and urllib.request.urlopen(self.http(number) + "/ready", timeout=5).status == 200
        except OSError:
            return False

    def wait_back(self, number, pid):
        """Until a killed node is there again, with another process, and ready."""
        patience = time.monotonic() + RETURN_TIMEOUT_S
        while time.monotonic() < patience:
            if self.is_back(number, pid):
                return
            time.sleep(0.2)
        raise AssertionError(f"node {number % 5 + 1} did not come back within {RETURN_TIMEOUT_S} s")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
