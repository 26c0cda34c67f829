"""A headless Chromium, driven by its own protocol over a pair of pipes: no driver, no package.

Always: what a page logs as an error, throws, or asks of another address than its own is remembered, for the test to look at.
Not here: what is clicked (click.py)."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

ANSWER_S = 60
LOOK_S = 0.1
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27}


class Browser:
    """One page of one browser."""

    def __init__(self, program):
        self.home = tempfile.mkdtemp(prefix="hive-console-browser-")
        read_commands, self.commands = os.pipe()
        self.answers, write_answers = os.pipe()

        def pipes():
            # The program reads commands from descriptor 3 and writes answers to 4.
            commands, answers = os.dup(read_commands), os.dup(write_answers)
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--ignore-certificate-errors",
             f"--user-data-dir={self.home}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=pipes, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_commands)
        os.close(write_answers)
        self.buffer, self.number, self.session = b"", 0, None
        self.errors, self.requests = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        return self._until(self.number)

    def _until(self, number):
        end = time.monotonic() + ANSWER_S
        while True:
            message = self._next(end)
            if message is None:
                raise AssertionError(f"the browser does not answer within {ANSWER_S} s")
            if message.get("id") == number:
                if "error" in message:
                    raise AssertionError(f"the browser refuses: {message['error']}")
                return message["result"]
            self._event(message)

    def _next(self, end):
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                return None
            more = os.read(self.answers, 1 << 20)
            if not more:
                raise AssertionError("the browser has ended")
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def _event(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, script, what, seconds=60):
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(script)
            if value:
                return value
            time.sleep(LOOK_S)
        text = self.run("document.body.innerText")
        raise AssertionError(f"not seen within {seconds} s: {what}\n--- the page shows ---\n{text[:4000]}\n--- errors ---\n{self.errors}")

    def open(self, url):
        self.call("Page.navigate", url=url)

    def sees(self, text, where="body", seconds=60):
        """Until a text is to be seen."""
        return self.wait(f"document.querySelector({json.dumps(where)})?.innerText.includes({json.dumps(text)})", f"'{text}' in {where}", seconds)

    def click(self, selector, text=None, seconds=30):
        """Presses the mouse in the middle of the first visible element of that selector (and with that text)."""
        find = f"""(() => {{
          const found = [...document.querySelectorAll({json.dumps(selector)})].find((one) => one.checkVisibility() && !one.disabled
            && ({json.dumps(text)} === null || one.textContent.trim().startsWith({json.dumps(text)}) || one.getAttribute("aria-label") === {json.dumps(text)}));
          if (!found) return null;
          found.scrollIntoView({{block: "center"}});
          const box = found.getBoundingClientRect();
          const at = [box.left + Math.min(box.width, 200) / 2, box.top + box.height / 2];
          // Nothing may lie over it, as a dialog does that has not closed yet.
          return found.contains(document.elementFromPoint(...at)) ? at : null;
        }})()"""
        x, y = self.wait(find, f"{selector} {text or ''}", seconds)
        for kind in ["mousePressed", "mouseReleased"]:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key):
        for kind in ["rawKeyDown", "char", "keyUp"] if key == "Enter" else ["rawKeyDown", "keyUp"]:
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key], text="\r" if key == "Enter" else "")

    def type(self, selector, text):
        self.wait(f"(document.querySelector({json.dumps(selector)})?.focus(), document.activeElement?.matches({json.dumps(selector)}))", f"a field {selector}")
        self.run(f"document.querySelector({json.dumps(selector)}).select()")
        self.call("Input.insertText", text=text)

    def screen(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as out:
            out.write(base64.b64decode(data))
