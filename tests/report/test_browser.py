"""Reports in a real browser: no errors, nothing fetched, maps that answer the pointer."""

import re
import shutil
import subprocess

import pytest
from run_folders import SECTIONS, finished_run

from fkpinn.cli import main

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
# points at the middle of every map, zooms in, and writes down what the page says
PROBE = """
<script>
window.addEventListener("load", () => setTimeout(() => {
  const said = [];
  for (const canvas of document.querySelectorAll("canvas")) {
    const box = canvas.getBoundingClientRect();
    const clientX = box.left + 0.4 * box.width, clientY = box.top + 0.5 * box.height;
    const at = { clientX, clientY, bubbles: true };
    canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: -1, cancelable: true }));
    canvas.dispatchEvent(new PointerEvent("pointermove", at));
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    said.push(`${canvas.getAttribute("aria-label")}: ${pixels.some((v) => v) ? "drawn" : "empty"}`);
  }
  for (const button of document.querySelectorAll("button")) button.click();
  for (const node of document.querySelectorAll(".readout")) said.push(node.textContent);
  const wide = document.documentElement.scrollWidth > window.innerWidth + 1;
  said.push(`width ${window.innerWidth}, ${wide ? "too wide" : "fits"}`);
  const list = document.createElement("pre");
  list.id = "probe";
  list.textContent = said.join("\\n");
  document.body.append(list);
}, 400));
</script>
"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser is installed")


def opened(page, folder, *flags):
    """What the browser makes of a page, and its complaints."""
    probed = folder / "probed.html"
    probed.write_text(page.read_text().replace("</body>", PROBE + "</body>"))
    call = [
        BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000", "--dump-dom", *flags,
        probed.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=True)
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, complaints


@pytest.mark.parametrize("flags", [["--window-size=1200,900"], ["--window-size=520,900"]])
def test_a_report_in_a_browser(tmp_path, flags):
    finished_run(tmp_path)
    assert main(["report", str(tmp_path)]) == 0
    dom, complaints = opened(tmp_path / "report.html", tmp_path, *flags)
    assert complaints == []
    for section in SECTIONS:
        assert f'<section id="{section}">' in dom
    said = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.S)[1]
    drawn = ["map of the solution", "corrections by paths", "labels with error bars", "loss curves"]
    for name in drawn:
        assert f"{name}: drawn" in said
    assert re.search(r"x₁ = .*: network 1.5, reference 1.75, difference -0.25", said)
    assert re.search(r"label .* ± .*, network", said)
    assert re.search(r"step .*: loss", said)
    assert "fits" in said, said


def test_a_comparison_in_a_browser(tmp_path):
    finished_run(tmp_path / "a")
    finished_run(tmp_path / "b")
    page = tmp_path / "both.html"
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(page)]) == 0
    dom, complaints = opened(page, tmp_path)
    assert complaints == []
    said = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.S)[1]
    assert said.count("map of the solution: drawn") == 2
    assert "errors against time: drawn" in said
