"""A headless Chromium that reports what it logged and what it asked the network for."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reporter.report import render

REQUIRED = os.environ.get("REPORTER_REQUIRE_BROWSER") == "1"
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-dev-shm-usage", "--disable-component-update", "--no-first-run", "--hide-scrollbars",
)  # fmt: skip

PATIENCE = 120.0  # seconds; beside other work a loaded machine draws a long page slowly, and no test is about that


@pytest.fixture(scope="session")
def results(made_up: ModuleType, reports: Path, once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """A rendered results folder: those of ``reports``, and ``made-up`` with a hostile name."""

    def make(folder: Path) -> None:
        shutil.copytree(reports, folder, dirs_exist_ok=True)
        models = (*made_up.MODELS[:3], ("<img src=x onerror=alert(1)>", "decoder", 8, 64, (None,)))
        store = made_up.fill(folder / "results.duckdb", models=models)
        made_up.fail(store, "made-up", "the weights are gone")
        render(folder / "results.duckdb", folder, ["made-up"])

    return once("results-in-a-browser", make)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A driver, shared by all tests; each test opens its page anew."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (binary and driver):
        message = "needs Debian's chromium and chromium-driver"
        if REQUIRED:
            pytest.fail(message)
        pytest.skip(message)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield browser
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # selenium leaves a pipe of the driver open
            with contextlib.suppress(OSError):
                browser.quit()


class Tab:
    """What tests ask of an open page."""

    def __init__(self, browser: Any, blank: str) -> None:
        self.browser, self.blank = browser, blank

    def open(self, path: Path, width: int = 1440, height: int = 900, dark: bool = False, query: str = "") -> None:
        """Open a page in a window of that size, with nothing remembered of earlier tests."""
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})  # fmt: skip
        self.prefer(dark)
        self.browser.get(self.blank)  # all files are one origin: what is cleared here is cleared for the page
        self.run("localStorage.clear()")
        self.complaints(), self.requests()
        self.browser.get(path.as_uri() + query)
        # On a busy machine the driver may return before the scripts have run.
        self.until("return document.readyState === 'complete' && location.href.startsWith(arguments[0])", path.as_uri())

    def prefer(self, dark: bool) -> None:
        """Let the system prefer a theme."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page."""
        return self.browser.execute_script(script, *arguments)

    def until(self, script: str, *arguments: Any) -> Any:
        """Wait until a script in the page returns something true, and return that."""
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.browser, PATIENCE, poll_frequency=0.05)  # half a second adds up to minutes
        return waiting.until(lambda _: self.run(script, *arguments), message=script)

    def complaints(self) -> list[str]:
        """Warnings and errors on the console since the last call."""
        return [entry["message"] for entry in self.browser.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses asked for since the last call that are not files of this machine."""
        messages = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a page of nothing."""
    page = tmp_path_factory.mktemp("blank") / "blank.html"
    page.write_text("<!doctype html><title>blank</title>")
    return page.as_uri()


@pytest.fixture
def tab(chromium: Any, blank: str) -> Tab:
    """The browser, ready to open a page."""
    return Tab(chromium, blank)
