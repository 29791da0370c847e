"""The page at /web: served without anything from elsewhere, and played by hand in a browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import httpx
import pytest
from play import pipeline, post


def test_the_page_is_self_contained(url: str) -> None:
    page = httpx.get(f"{url}/web")
    assert page.status_code == 200 and "default-src 'self'" in page.headers["content-security-policy"]
    for name in re.findall(r'(?:src|href)="(/web/[^"]+)"', page.text):
        asset = httpx.get(url + name)
        assert asset.status_code == 200
        assert not re.search(r"https?://", asset.text)
    assert not re.search(r'(?:src|href)="https?://', page.text)
    assert httpx.get(url).headers["location"] == "/web"
    assert httpx.get(f"{url}/web/../../etc/passwd").status_code == 404
    assert httpx.get(f"{url}/web/%2e%2e").status_code == 404


@pytest.fixture
def task(url: str) -> Iterator[str]:
    post(f"{url}/api/pipelines", pipeline("by-hand"))
    yield "by-hand"
    httpx.delete(f"{url}/api/pipelines/by-hand")


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_a_task_is_repaired_by_hand(width: int, url: str, task: str) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or pytest.skip("no chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page, errors = browser.new_page(viewport={"width": width, "height": 900}), []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{url}/web?task={task}")
        expect = sync_api.expect
        expect(page.locator("#task")).to_have_value("by-hand")
        page.click("#start")
        page.wait_for_selector("#diff .card.bad")
        assert page.inner_text("#left") == "1" and "versioning" in page.inner_text("#diff")
        page.fill("#operation", "PutBucketVersioning")
        page.fill("#payload", "{")
        page.click("#send")
        expect(page.locator("#problem")).to_contain_text("Payload")
        page.fill("#payload", '{"Bucket": "nowhere", "VersioningConfiguration": {"Status": "Enabled"}}')
        page.click("#send")
        page.wait_for_selector("#log .error")
        page.fill("#payload", '{"Bucket": "data", "VersioningConfiguration": {"Status": "Enabled"}}')
        page.click("#send")
        expect(page.locator("#done")).to_have_text("repaired")
        assert page.inner_text("#reward") == "0.990" and page.is_disabled("#send")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert errors == []
        browser.close()
