"""A headless Chromium that reports what it logged and what it asked the network for."""

import contextlib
import json
import os
import shutil
import warnings

import pytest

FLAGS = "headless=new no-sandbox disable-gpu disable-background-networking disable-dev-shm-usage"
FLAGS += " disable-component-update no-first-run hide-scrollbars"
NEAR = """
const near = [...document.querySelectorAll(".panel")].filter(panel => {
  const box = panel.getBoundingClientRect();
  return box.top < innerHeight && box.bottom > 0 && panel.checkVisibility() && !panel.closest("[inert]");
});
"""
# what has a chart's place near the window has its chart, or says that there is nothing to draw
DRAWN = f"{NEAR} return near.every(panel => panel.querySelector('svg.marks, canvas, table, .void'));"
PATIENCE = 120.0  # seconds; beside other work a loaded machine draws a long page slowly, and no test is about that


def require(there, what):
    """Skip a test where something is absent, or fail it if the machine must have everything."""
    if not there:
        (pytest.fail if os.environ.get("REPORTER_REQUIRE_BROWSER") == "1" else pytest.skip)(f"needs {what}")


@pytest.fixture(scope="session")
def tab(tmp_path_factory):
    """The browser, ready to open a page; shared by all tests, each of which opens its page anew."""
    binary, driver, folder = shutil.which("chromium"), shutil.which("chromedriver"), tmp_path_factory.mktemp("browser")
    require(binary and driver, "Debian's chromium and chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS.split(), f"user-data-dir={folder / 'profile'}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    (folder / "blank.html").write_text("<!doctype html><title>blank</title>")
    yield Tab(browser, (folder / "blank.html").as_uri())
    # selenium leaves a pipe of the driver open
    with warnings.catch_warnings(action="ignore", category=ResourceWarning), contextlib.suppress(OSError):
        browser.quit()


class Tab:
    """What tests ask of an open page."""

    def __init__(self, browser, blank):
        self.browser, self.blank = browser, blank

    def open(self, path, width=1440, height=900, dark=False, query=""):
        """Open a page in a window of that size, with nothing remembered of earlier tests."""
        self.resize(width, height)
        self.prefer(dark)
        self.browser.get(self.blank)  # all files are one origin: what is cleared here is cleared for the page
        self.run("localStorage.clear()")
        self.complaints(), self.requests()
        self.browser.get(path.as_uri() + query)
        # On a busy machine the driver may return before the scripts have run.
        self.until("return document.readyState === 'complete' && location.href.startsWith(arguments[0])", path.as_uri())

    def resize(self, width, height):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, dark):
        """Let the system prefer a theme."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def run(self, script, *arguments):
        """Run a script in the page."""
        return self.browser.execute_script(script, *arguments)

    def until(self, script, *arguments):
        """Wait until a script in the page returns something true, and return that."""
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.browser, PATIENCE, poll_frequency=0.05)  # half a second adds up to minutes
        return waiting.until(lambda _: self.run(script, *arguments), message=script)

    def texts(self, selector):
        """The texts of all elements that a selector finds."""
        return self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def click(self, selector):
        self.run("document.querySelector(arguments[0]).click()", selector)

    def see(self, selector, block="center"):
        """Scroll to an element."""
        where = {"block": block, "behavior": "instant"}
        self.run("document.querySelector(arguments[0]).scrollIntoView(arguments[1])", selector, where)

    def scroll(self, step, drawn=DRAWN, *arguments):
        """Go down the page, which grows as it is drawn, and wait at each stop until ``drawn`` returns true."""
        top = 0
        while top < self.run("return document.documentElement.scrollHeight"):
            self.run("scrollTo({top: arguments[0], behavior: 'instant'})", top)
            self.until(drawn, *arguments)
            top += step

    def choose(self, selector, value, event="change"):
        """Set a control and tell the page of it."""
        script = "const e = document.querySelector(arguments[0]); e.value = arguments[1];"
        self.run(f"{script} e.dispatchEvent(new Event(arguments[2]))", selector, value, event)

    def keys(self, *keys, on=None):
        """Press keys, named as Selenium names them or written as they are, on an element or where the focus is."""
        from selenium.webdriver.common.keys import Keys

        if on:
            self.run("document.querySelector(arguments[0]).focus()", on)
        for key in keys:
            self.browser.switch_to.active_element.send_keys(getattr(Keys, key, key))

    def mouse(self, x, y, press=False):
        """Move the mouse to a place in the window, and press it there."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased")[: 3 if press else 1]:
            button = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
            self.browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **button})

    @contextlib.contextmanager
    def watched(self, script):
        """Run a script before those of each page that is opened."""
        source = {"source": script}
        watch = self.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", source)["identifier"]
        try:
            yield
        finally:
            self.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": watch})

    def assert_quiet(self):
        """Nothing was complained of since the last call, and nothing asked of the network."""
        assert self.complaints() == [] and self.requests() == []

    def complaints(self):
        """Warnings and errors on the console since the last call."""
        return [entry["message"] for entry in self.browser.get_log("browser")]

    def requests(self):
        """Addresses asked for since the last call that are not files of this machine."""
        messages = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
