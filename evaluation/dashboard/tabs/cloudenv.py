"""CloudEnv: repair a pipeline on the emulated AWS by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import gradio as gr

from cloudrl.errors import UserError
from evaluation.dashboard.events import LOADING, QUIET
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.look import html, notice, problem

if TYPE_CHECKING:  # it needs the extra `cloudenv`, and takes two seconds to load
    from evaluation.dashboard.repair import Repair

NOTHING = (
    "Choose a task and start it: a broken pipeline is built in an emulator on this machine. Repair it with AWS "
    "operations, or watch the solution step by step. No real cloud is involved."
)
NEEDS = "CloudEnv needs its extra: pip install 'cloud-rl[cloudenv]'"
IDLE = 1800.0
"""Seconds after which a task that nobody works on is freed."""
SLOW: dict[str, Any] = {"show_progress": "minimal", "api_visibility": "private", "concurrency_limit": 4}


def build(folders: Folders) -> None:
    """Lay out the tab."""
    with gr.Tab("CloudEnv", id="cloudenv") as tab:
        repair = gr.State(None, time_to_live=IDLE, delete_callback=_free)
        with gr.Row(equal_height=True):
            task = gr.Dropdown(
                ["easy-task-1"], value="easy-task-1", label="Task", allow_custom_value=True, scale=4,
                min_width=240, elem_id="cloudenv-task",
                info="Or a generated one: gen:easy:7, gen:medium:3, gen:hard:1.",
            )  # fmt: skip
            start = gr.Button("Start", variant="primary", scale=1, min_width=100, elem_id="cloudenv-start")
        message = html(notice(NOTHING))
        with gr.Column(visible=False) as stage:
            head = html()
            graph = html()
            with gr.Row(equal_height=False):
                with gr.Column(scale=3, min_width=300):
                    gr.Markdown("### Act")
                    with gr.Row():
                        service = gr.Dropdown([], label="Service", min_width=110, elem_id="cloudenv-service")
                        operation = gr.Dropdown(
                            [], label="Operation", allow_custom_value=True, min_width=180,
                            elem_id="cloudenv-operation",
                        )  # fmt: skip
                    payload = gr.Textbox(
                        "{}", label="Payload (JSON, as in boto3)", lines=7, max_lines=20, elem_classes=["command"],
                        elem_id="cloudenv-payload",
                    )  # fmt: skip
                    with gr.Row():
                        send = gr.Button(
                            "Send", size="sm", variant="primary", min_width=80, elem_id="cloudenv-send"
                        )
                        look = gr.Button(
                            "Fill in the next step", size="sm", min_width=150, elem_id="cloudenv-look"
                        )
                        step = gr.Button("Do the next step", size="sm", min_width=130, elem_id="cloudenv-next")
                    gr.Markdown("### Answer")
                    answer = html()
                with gr.Column(scale=4, min_width=300):
                    gr.Markdown("### What differs from the ideal")
                    differences = html()
                    with gr.Accordion("Pipeline now", open=False):
                        state = html()
                    with gr.Accordion("Log", open=False):
                        log = html()

    view = _View()
    shown = [message, head, graph, answer, differences, state, log]
    form = [service, operation, payload]
    tab.select(view.tasks, [task], [task, message, start], **QUIET)
    start.click(view.start, [repair, task], [repair, stage, *form, *shown], **SLOW)
    service.input(view.service, [repair, service], [operation, payload], **QUIET)
    operation.input(view.example, [repair, service, operation], [payload], **QUIET)
    send.click(view.send, [repair, *form], shown, **SLOW)
    look.click(view.look, [repair], [message, *form], **SLOW)
    step.click(view.next, [repair], shown, **SLOW)


def _free(repair: Repair | None) -> None:
    """The episode of a page that was left."""
    if repair is not None:
        repair.close()


class _View:
    """The handlers. What belongs to one person is in the state that they are given."""

    def tasks(self, chosen: str | None) -> list[Any]:
        """The tasks that ship, and whether the extra is there."""
        try:
            with LOADING:
                from evaluation.dashboard import repair
        except ImportError:
            return [gr.skip(), gr.HTML(problem(NEEDS), visible=True), gr.Button(interactive=False)]
        known = repair.tasks()
        return [gr.Dropdown(known, value=chosen or known[0][1]), gr.skip(), gr.skip()]

    def start(self, old: Repair | None, name: str | None) -> list[Any]:
        """A new episode in place of the old one."""
        nothing = [gr.skip()] * 5
        try:
            with LOADING:
                from evaluation.dashboard.repair import Repair
        except ImportError:
            return [*nothing, self._say(NEEDS), *[gr.skip()] * 6]
        try:
            new = Repair(name or "")
        except UserError as error:
            return [*nothing, self._say(str(error)), *[gr.skip()] * 6]
        _free(old)
        services = new.services()
        form = [gr.Dropdown(services, value=services[0]), *self.service(new, services[0])]
        return [new, gr.Column(visible=True), *form, *self.show(new)]

    # ------------------------------------------------------------------ the form
    def service(self, repair: Repair | None, service: str | None) -> list[Any]:
        """Its operations."""
        if repair is None or not service:
            return [gr.skip(), gr.skip()]
        from evaluation.dashboard.repair import operations

        names = operations(service)
        return [gr.Dropdown(names, value=names[0] if names else None), self.example(repair, service, names[0])]

    def example(self, repair: Repair | None, service: str | None, operation: str | None) -> Any:
        """A payload to begin with."""
        if repair is None or not service or not operation:
            return gr.skip()
        from evaluation.dashboard.repair import example

        return example(repair, service, operation)

    def look(self, repair: Repair | None) -> list[Any]:
        """The next step of the solution, to be sent or changed."""
        action = repair.next_step() if repair is not None else None
        if action is None:
            return [self._say("Nothing is left to repair."), *[gr.skip()] * 3]
        from evaluation.dashboard.repair import operations

        text = json.dumps(action["payload"], indent=2, default=str)
        names = operations(action["service"])
        return [_quiet(), action["service"], gr.Dropdown(names, value=action["operation"]), text]

    # ------------------------------------------------------------------ act
    def send(
        self, repair: Repair | None, service: str | None, operation: str | None, payload: str | None
    ) -> list[Any]:
        if repair is None:
            return self.show(None)
        try:
            repair.step(service or "", operation or "", payload or "{}")
        except UserError as error:
            return [self._say(str(error)), *self.show(repair)[1:]]
        return self.show(repair)

    def next(self, repair: Repair | None) -> list[Any]:
        """Carry out the next step of the solution."""
        action = repair.next_step() if repair is not None else None
        if repair is None or action is None:
            return [self._say("Nothing is left to repair."), *[gr.skip()] * 6]
        repair.step(action["service"], action["operation"], action["payload"])
        return self.show(repair)

    def show(self, repair: Repair | None) -> list[Any]:
        """Everything as it is now."""
        if repair is None:
            return [gr.HTML(notice(NOTHING), visible=True), *[gr.skip()] * 6]
        from evaluation.dashboard import repair_view as view

        with repair.lock:
            return [
                _quiet(), view.head(repair), view.graph(repair), view.answer(repair), view.differences(repair),
                view.state(repair), view.log(repair),
            ]  # fmt: skip

    @staticmethod
    def _say(text: str) -> Any:
        return gr.HTML(problem(text), visible=True)


def _quiet() -> Any:
    """Nothing to say."""
    return gr.HTML("", visible=False)
