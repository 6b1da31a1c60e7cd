"""JupyterLab as `make learn` starts it, on new copies of the lessons, and a browser that reaches it alone."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from course.start import handing_out, jupyterlab

CHROMIUM = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
HERE = {"127.0.0.1", "localhost"}


@pytest.fixture(scope="session")
def lessons() -> Path:
    """The folder of the lessons to hand out."""
    return handing_out.LESSONS


@pytest.fixture(scope="session")
def mine(lessons, tmp_path_factory) -> Path:
    """A learner's new folder, in a new home."""
    folder = tmp_path_factory.mktemp("learner") / "my-lessons"
    for beside in ("mini_attn", "course/assets"):  # what lessons link to and show
        shutil.copytree(handing_out.ROOT / beside, folder.parent / beside)
    handing_out.hand_out(lessons, folder)
    return folder


@pytest.fixture(scope="session")
def server(mine):
    """The URL that JupyterLab prints when it is started on the learner's folder."""
    home = mine.parent
    options = ["--no-browser", "--port=0", "--LabApp.expose_app_in_browser=True"]
    command = jupyterlab.command(mine, min(path.name for path in mine.glob("*.ipynb")), options)
    witness = home / "outside.txt"
    environment = {
        **{name: value for name, value in jupyterlab.environment().items() if name != "MPLBACKEND"},
        # A learner's first day: no settings, and none of whoever runs the tests.
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent / "witness"), str(handing_out.ROOT)]),
        "WITNESS": str(witness),
        "OMP_NUM_THREADS": "1",
    }
    log = home / "jupyterlab.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL
        )
    try:
        yield wait_for_url(process, log)
    finally:
        stop(process)
    assert not witness.exists(), f"JupyterLab or a kernel asked for: {witness.read_text()}"


def wait_for_url(process: subprocess.Popen, log: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(r"(http://127\.0\.0\.1:\d+/lab\S*)\n", log.read_text())
        if found:
            with contextlib.suppress(ConnectionRefusedError):  # printed before it listens
                socket.create_connection(("127.0.0.1", urlsplit(found[1]).port)).close()
                return found[1]
        time.sleep(0.1)
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text()}")


def stop(process: subprocess.Popen) -> None:
    """End JupyterLab, which ends its kernels; they also end by themselves when it is gone."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def browser():
    program = shutil.which("chromium")
    assert program, "MINI_ATTN_REQUIRE_BROWSER is set, and there is no chromium on the PATH"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=CHROMIUM)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def page(browser):
    """One page for all tests, as a learner has it: to load JupyterLab anew takes a core over ten seconds.

    Afterwards, every request and websocket of it must have stayed on this machine.
    """
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(60_000)  # the machine may be busy with other tests
    page = context.new_page()
    asked = []
    context.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    yield page
    context.close()
    outside = [
        url
        for url in asked
        if urlsplit(url).scheme not in ("data", "blob") and urlsplit(url).hostname not in HERE
    ]
    assert not outside, outside
    assert any(url.startswith("ws://127.0.0.1") for url in asked)  # what should be seen is seen
