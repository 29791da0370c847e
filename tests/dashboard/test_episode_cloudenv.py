"""Repairing by hand on the dashboard, without a browser."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("moto", reason="needs the extra cloudenv")
pytest.importorskip("openenv", reason="needs the extra cloudenv")

from cloudrl.errors import UserError
from evaluation.dashboard import repair_view
from evaluation.dashboard.repair import Repair, checked, example, operations, tasks


@pytest.mark.parametrize("name", ["easy-task-1", "medium-task-1", "hard-task-1", "gen:easy:7"])
def test_the_solution_step_by_step_repairs(name: str) -> None:
    repair = Repair(name)
    assert not repair.done and repair.diff and repair.reward < 0.99
    rewards = []
    while (action := repair.next_step()) is not None:
        assert len(repair.log) < 30
        done = repair.step(action["service"], action["operation"], action["payload"])
        assert not done.error
        rewards.append(done.reward)
    assert repair.done and repair.diff == [] and rewards[-1] == 0.99
    assert repair.references() >= repair.wanted_references()
    for view in (repair_view.head, repair_view.graph, repair_view.differences, repair_view.log):
        assert 'class="crl"' in view(repair)
    repair.close()


def test_two_people_are_apart() -> None:
    one, other = Repair("easy-task-1"), Repair("easy-task-1")
    before = json.dumps(other.state)
    action = one.next_step()
    assert action is not None
    one.step(action["service"], action["operation"], action["payload"])
    assert json.dumps(other.state) == before and other.log == [] and len(one.log) == 1
    one.close()
    other.close()


def test_what_is_refused_is_said_and_goes_on() -> None:
    repair = Repair("easy-task-1")
    done = repair.step("s3", "NoSuchOperation", "{}")
    assert done.error and "refused" in repair_view.answer(repair)
    for payload, text in (("{", "not JSON"), ("[1]", "payload"), ('{"a": NaN}', "not finite")):
        with pytest.raises(UserError, match=text):
            repair.step("s3", "ListBuckets", payload)
    with pytest.raises(UserError, match="choose a service"):
        checked("", "ListBuckets", "{}")
    assert len(repair.log) == 1
    assert repair.step("s3", "ListBuckets", "{}").error == ""
    repair.close()


def test_bytes_travel_as_on_the_server() -> None:
    action = checked("s3", "PutObject", '{"Bucket": "b", "Key": "k", "Body": {"$base64": "ZGF0YQ=="}}')
    assert action["payload"]["Body"] == b"data" and action["service"] == "s3"


def test_tasks_that_do_not_exist() -> None:
    for name in ("easy-tsk-1", "", "gen:nowhere:1", "../../etc/passwd"):
        with pytest.raises(UserError):
            Repair(name)


def test_every_task_is_offered_once() -> None:
    known = tasks()
    assert len({name for _, name in known}) == len(known) > 50
    assert [label.partition(":")[0] for label, _ in known] == sorted(
        (label.partition(":")[0] for label, _ in known), key=["easy", "medium", "hard"].index
    )


def test_examples_are_json_with_what_is_required() -> None:
    repair = Repair("medium-task-1")
    payload = json.loads(example(repair, "sqs", "SetQueueAttributes"))
    assert payload["QueueUrl"].endswith(("/jobs", "/jobs-dead")) and "Attributes" in payload
    for service in repair.services():
        for operation in operations(service):
            assert isinstance(json.loads(example(repair, service, operation)), dict)
    assert example(repair, "sqs", "Nonsense") == "{}"
    repair.close()


def test_values_are_text_and_no_html() -> None:
    repair = Repair("easy-task-1")
    repair.step("s3", "<script>alert(1)</script>", "{}")
    for view in (repair_view.answer, repair_view.log, repair_view.state, repair_view.graph):
        assert "<script" not in view(repair)
    repair.close()
