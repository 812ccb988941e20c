"""A browser without a window: what a page has become after its scripts ran, and how it looks."""

import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
LONG_S = 240.0
DARK = "--blink-settings=preferredColorScheme=0"


def browser() -> str:
    """The browser of this machine; skips the test, with the reason, where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    return found


def _opened(profile: Path, *arguments: str) -> str:
    common = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"]
    command = [browser(), *common, f"--user-data-dir={profile}", "--allow-file-access-from-files", *arguments]
    done = subprocess.run(command, capture_output=True, timeout=LONG_S)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout.decode()


def dom_of(url: str, profile: Path) -> str:
    """The page's document when its scripts have nothing more to do. Time there passes only while nobody waits."""
    return _opened(profile, "--virtual-time-budget=20000", "--dump-dom", url)


def screenshot(url: str, file: Path, profile: Path, *, width: int, height: int, dark: bool = False) -> bytes:
    """The page as a PNG picture."""
    shade = [DARK] if dark else []
    _opened(profile, *shade, f"--window-size={width},{height}", f"--screenshot={file}", url)
    return file.read_bytes()
