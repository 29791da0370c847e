"""Episode and CloudEnv as a person uses them, in Chromium."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.dashboard import test_dashboard_browser
from tests.dashboard.conftest import Dashboard, open_tab, visit

pytestmark = pytest.mark.browser
axe = test_dashboard_browser.axe  # the fixture
SLOW = 240_000  # the first episode loads compiled kernels, and the machine may be busy


def choose(page: Any, label: str, text: str) -> None:
    """Type into a dropdown, as one does who knows the word."""
    box = page.get_by_label(label, exact=True).locator("visible=true").first
    box.click()
    box.fill(text)
    box.press("Enter")


def show(page: Any, suite: str, seed: int, agent: str = "handwritten") -> None:
    open_tab(page, "Episode")
    page.locator("#episode-show").wait_for()
    choose(page, "Suite", suite)
    choose(page, "Agent", agent)
    page.get_by_label("World (seed)").fill(str(seed))
    page.locator("#episode-show").click()
    page.get_by_text(f"in world {seed}").wait_for(timeout=SLOW)


def at(page: Any, tick: int) -> None:
    page.get_by_text(f"(tick {tick} of").wait_for(timeout=60_000)


def operate(page: Any, resource: str, op: str) -> None:
    choose(page, "Resource", resource)
    choose(page, "Operation", op)
    page.get_by_text(f"{op} web-1").first.wait_for()
    page.locator("#episode-act").click()


def fits(page: Any) -> None:
    """Nothing sticks out sideways."""
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_step_jump_and_act_by_hand(browser: Any, dashboard: Dashboard) -> None:
    page = visit(browser, dashboard)
    show(page, "easy", 20_003)
    at(page, 0)
    for tick in (1, 2, 3):
        page.locator("#episode-step").click()
        at(page, tick)
    page.locator("#episode-back").click()
    at(page, 2)
    number = page.locator("#episode-tick input[type=number]")
    number.fill("40")
    number.press("Enter")
    at(page, 40)
    operate(page, "r0", "DELETE")  # the safety layer forbids it, and it may be tried
    at(page, 41)
    page.get_by_text("vetoed", exact=True).first.wait_for()
    assert page.get_by_text("delete_in_use").count() > 0
    page.get_by_text("It did not run").wait_for()
    operate(page, "r0", "ANALYZE")
    at(page, 42)
    page.get_by_text("by hand", exact=False).first.wait_for()
    page.get_by_text("admissible", exact=True).first.wait_for()
    page.get_by_text(re.compile(r"It (saved|lost)")).wait_for()
    page.locator("#episode-end").click()  # the agent goes on from the world that was changed
    at(page, 96)
    fits(page)
    assert page.faults == [] and page.outside == []
    page.context.close()


def test_hidden_things_are_shown_on_request(browser: Any, dashboard: Dashboard) -> None:
    page = visit(browser, dashboard, viewport={"width": 390, "height": 844}, color_scheme="dark")
    show(page, "medium", 20_003)
    assert page.locator(".resources td .true").count() > 0
    page.get_by_label("Show what is hidden").uncheck()
    page.get_by_text("What is hidden is not shown").wait_for()
    assert page.locator(".resources td .true").count() == 0
    fits(page)
    page.context.close()


def test_it_plays_by_itself_and_pauses(browser: Any, dashboard: Dashboard) -> None:
    page = visit(browser, dashboard)
    show(page, "easy", 20_004)
    page.locator("#episode-play").click()
    at(page, 2)
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Play", exact=True).wait_for()
    page.context.close()


def test_two_people_do_not_see_each_other(browser: Any, dashboard: Dashboard) -> None:
    one, other = visit(browser, dashboard), visit(browser, dashboard)
    show(one, "easy", 20_005)
    show(other, "easy", 20_006, "noop")
    one.locator("#episode-step").click()
    at(one, 1)
    other.locator("#episode-end").click()
    at(other, 96)
    one.locator("#episode-step").click()
    at(one, 2)
    assert one.get_by_text("in world 20005").count() == 1 and other.get_by_text("in world 20006").count() == 1
    one.context.close()
    other.context.close()


@pytest.mark.parametrize("spec", ["python:os:system", "ppo:/etc", "llm:../../x"])
def test_what_a_page_may_not_ask_for_is_refused(browser: Any, dashboard: Dashboard, spec: str) -> None:
    page = visit(browser, dashboard)
    open_tab(page, "Episode")
    choose(page, "Agent", spec)
    page.locator("#episode-show").click()
    alert = page.get_by_role("alert").filter(has_text=re.compile("for the command line|outside the runs folder"))
    alert.first.wait_for(timeout=SLOW)
    assert page.locator(".world svg").count() == 0
    page.context.close()


def test_repair_on_cloudenv(browser: Any, dashboard: Dashboard) -> None:
    pytest.importorskip("moto", reason="needs the extra cloudenv")
    pytest.importorskip("openenv", reason="needs the extra cloudenv")
    page = visit(browser, dashboard)
    open_tab(page, "CloudEnv")
    page.get_by_label("Task", exact=True).wait_for()
    page.wait_for_function("document.querySelector('#cloudenv-task input').value !== ''", timeout=SLOW)
    choose(page, "Task", "medium-task-1")
    page.locator("#cloudenv-start").click()
    page.get_by_text("differences left 2").wait_for(timeout=SLOW)
    payload = page.locator("#cloudenv-payload textarea")
    payload.fill("{not json")
    page.locator("#cloudenv-send").click()
    page.get_by_role("alert").filter(has_text="not JSON").first.wait_for()
    page.locator("#cloudenv-look").click()  # fills in the next step of the solution ...
    page.wait_for_function("document.querySelector('#cloudenv-payload textarea').value.includes('QueueUrl')")
    page.locator("#cloudenv-send").click()  # ... which is sent by hand
    page.get_by_text("differences left 1").wait_for(timeout=60_000)
    page.locator("#cloudenv-next").click()
    page.get_by_text("Nothing differs").wait_for(timeout=60_000)
    page.get_by_text("reward 0.990").wait_for()
    fits(page)
    assert page.faults == [] and page.outside == []
    page.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_accessible_while_in_use(
    browser: Any,
    dashboard: Dashboard,
    axe: str,
    width: int,
    scheme: str,
) -> None:
    page = visit(browser, dashboard, viewport={"width": width, "height": 900}, color_scheme=scheme)
    show(page, "easy", 20_003)
    page.locator("#episode-step").click()
    at(page, 1)
    page.get_by_text("Decisions that changed most").click()
    check_access(page, axe)
    open_tab(page, "CloudEnv")
    page.locator("#cloudenv-start").click()
    page.get_by_text("differences left 1").wait_for(timeout=SLOW)
    page.locator("#cloudenv-next").click()
    page.get_by_text("Nothing differs").wait_for(timeout=60_000)
    page.wait_for_function("!document.querySelector('.pending')")
    check_access(page, axe)
    page.context.close()


def check_access(page: Any, script: str) -> None:
    """No serious fault; nothing sticks out."""
    fits(page)
    page.evaluate(script)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    bad = [f for f in found if f["impact"] in ("serious", "critical")]
    assert bad == [], [(f["id"], [node["html"][:150] for node in f["nodes"][:3]]) for f in bad]
