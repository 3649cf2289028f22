"""Browser: headless Chromium, driven through the pipe of its DevTools protocol with the standard library alone."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE_S = 30


def find():
    """The program's path, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page. `problems` collects errors of the page's console."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()

        def place_pipes():  # the browser reads from descriptor 3 and writes to 4
            high = [os.dup2(fd, n) for fd, n in ((to_read, 203), (to_write, 204))]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        # A container's root has no sandbox, and perhaps little /dev/shm.
        self.process = subprocess.Popen(
            [find(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-pipe", "--disable-background-networking", "--disable-component-update",
             f"--user-data-dir={self.profile.name}", "about:blank"],
            preexec_fn=place_pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.rest, self.number, self.session, self.problems = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(domain + ".enable")

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.profile.cleanup()

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _read(self):
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.from_browser], [], [], max(0, deadline - time.monotonic()))
            block = os.read(self.from_browser, 1 << 20) if ready else b""
            if not block:
                raise TimeoutError("the browser says nothing")
            self.rest += block
        text, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(text)
        method, what = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(what["exceptionDetails"].get("exception", what["exceptionDetails"])))
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
            self.problems.append(str(what["args"]))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.problems.append(what["entry"]["text"])
        return message

    def open(self, path, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url="about:blank")  # so that the wait below is for the new page
        self.call("Page.navigate", url=f"file://{path}")
        self.wait("document.readyState === 'complete' && document.title !== ''")

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression):
        deadline = time.monotonic() + PATIENCE_S
        while not self.evaluate(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never came true: {expression}")
            time.sleep(0.02)

    def press(self, key):
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **(text if kind == "keyDown" else {}))

    def click(self, selector):
        x, y = self.evaluate(f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{block: 'center'}});
            const at = element.getBoundingClientRect();
            return [at.x + at.width / 2, at.y + at.height / 2];
        }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
