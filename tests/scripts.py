"""JavaScript of the package run outside it: by an engine alone, and by a browser without a window."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from py_mini_racer import MiniRacer

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
# The file axe.min.js of the npm package axe-core, where somebody has it.
AXE = os.environ.get("AXE_CORE")
needs_browser = pytest.mark.skipif(not BROWSER, reason="there is no Chromium to open a page with")
needs_axe = pytest.mark.skipif(AXE is None, reason="AXE_CORE does not name the file axe.min.js")
# No window, and nothing asked of any network.
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
# Virtual milliseconds that a page is given.
PATIENCE = 10_000
# With virtual time the browser draws no frames that anything could wait for.
FRAMES = "<script>globalThis.requestAnimationFrame = (go) => setTimeout(go, 16);</script>"
# What every browser has, and an engine alone has not.
BASE64 = """
globalThis.atob = (text) => {
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const codes = Object.fromEntries([...letters].map((letter, code) => [letter, code]));
  const parts = [];
  for (let i = 0; i < text.length; i += 4) {
    const [a, b, c, d] = [0, 1, 2, 3].map((k) => codes[text[i + k]] ?? 0);
    const bits = (a << 18) | (b << 12) | (c << 6) | d;
    parts.push(String.fromCharCode(bits >> 16, (bits >> 8) & 255, bits & 255));
  }
  return parts.join("").slice(0, (text.length / 4) * 3 - (text.match(/=*$/)[0].length));
};
"""
RESULT = re.compile(r'<pre id="test-result">(.*?)</pre>', re.DOTALL)


def in_engine(script: str, expression: str, given: Any) -> Any:
    """Return what an expression comes to after a script, with `given` as a JSON value of that name."""
    tail = (
        f"const given = JSON.parse({json.dumps(json.dumps(given))});\n"
        f"const answer = {expression};\n"
        "const plain = (_, own) => (ArrayBuffer.isView(own) ? Array.from(own) : own);\n"
        "JSON.stringify(answer, plain);\n"
    )
    return json.loads(str(MiniRacer().eval(f"{BASE64}\n{script}\n{tail}")))


def in_browser(page: str, script: str, folder: Path, *options: str, virtual: bool = True) -> Any:
    """Return what a script resolves to in a page, which runs once the page stands.

    The script is the body of an async function that returns what JSON can say; the folder takes the page
    and the browser's own files. Virtual time passes as fast as the page allows; else it is real, and the
    script must not wait.
    """
    tail = (
        "<script>const failures = [];"
        'addEventListener("error", (event) => failures.push(event.message));'
        "const pause = (time) => new Promise((go) => setTimeout(go, time));"
        f"(async () => {{ {script} }})().catch((error) => ({{ failure: String(error) }}))"
        '.then((answer) => { const at = document.createElement("pre"); at.id = "test-result";'
        "at.textContent = JSON.stringify({ answer, failures }); document.body.append(at); });</script>"
    )
    file = folder / "page.html"
    head = f"<head>{FRAMES}" if virtual else "<head>"
    whole = page.replace("<head>", head, 1).replace("</body>", f"{tail}</body>")
    file.write_text(whole, encoding="utf-8")
    time = (f"--virtual-time-budget={PATIENCE}",) if virtual else ()
    command = [
        str(BROWSER), *QUIET, f"--user-data-dir={folder / 'browser'}", *options,
        *time, "--dump-dom", file.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    found = RESULT.search(done.stdout)
    assert found, done.stderr[-2000:]
    result = json.loads(html.unescape(found[1]))
    assert result["failures"] == []
    return result["answer"]
