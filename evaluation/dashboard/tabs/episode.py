"""Episode: step through a world, see what the agent saw and what was hidden, and act by hand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import gradio as gr

from cloudrl.errors import UserError
from evaluation.dashboard import commands
from evaluation.dashboard.agents import agent_choices
from evaluation.dashboard.events import LOADING, QUIET
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.look import html, notice, problem

if TYPE_CHECKING:  # these bring numba, and are loaded once somebody wants an episode
    from evaluation.dashboard.playthrough import Playthrough

AGENT, REPLAY = "Let an agent play", "Replay an evaluation"
NOTHING = (
    "Choose a world and who plays it, and press Show. Then step through the day, jump to any tick, or act by "
    "hand: the agent can go on from the world that you changed."
)
AT_ONCE = 1.5
"""Seconds that are played when an episode is opened; slow agents go on with every step."""
IDLE = 3600.0
"""Seconds after which an episode that nobody looks at is forgotten."""
SLOW: dict[str, Any] = {"show_progress": "minimal", "api_visibility": "private", "concurrency_limit": 4}
"""Arguments of an event that may load an agent or play for a while."""


def build(folders: Folders) -> None:
    """Lay out the tab."""
    with gr.Tab("Episode", id="episode") as tab:
        play = gr.State(None, time_to_live=IDLE)
        source = gr.Radio(
            [AGENT, REPLAY], value=AGENT, label="Who plays", container=False, elem_id="episode-source"
        )  # fmt: skip
        with gr.Row(equal_height=True):
            suite = gr.Dropdown(
                commands.suites(), value="easy", label="Suite", allow_custom_value=True, scale=2, min_width=160,
            )  # fmt: skip
            agent = gr.Dropdown(
                ["handwritten", "noop"], value="handwritten", label="Agent", allow_custom_value=True, scale=3,
                min_width=200,
            )  # fmt: skip
            run = gr.Dropdown([], label="Evaluation", visible=False, scale=3, min_width=200)
            of_run = gr.Dropdown([], label="Agent of it", visible=False, scale=2, min_width=160)
            seed = gr.Textbox("20000", label="World (seed)", scale=1, min_width=110, elem_id="episode-seed")
            start = gr.Button("Show", variant="primary", scale=1, min_width=90, elem_id="episode-show")
        message = html(notice(NOTHING))
        with gr.Column(visible=False) as stage:
            head = html()
            with gr.Row(equal_height=False):
                back = gr.Button("Back", size="sm", min_width=80, elem_id="episode-back")
                forward = gr.Button("Step", size="sm", min_width=80, variant="primary", elem_id="episode-step")
                runs = gr.Button("Play", size="sm", min_width=80, elem_id="episode-play")
                end = gr.Button("To the end", size="sm", min_width=100, elem_id="episode-end")
                again = gr.Button(
                    "Agent decides anew from here", size="sm", min_width=200, elem_id="episode-again"
                )
                truth = gr.Checkbox(
                    True, label="Show what is hidden", container=False, min_width=180, elem_id="episode-truth"
                )
            tick = gr.Slider(0, 96, value=0, step=1, label="Tick", elem_id="episode-tick")
            graph = html()
            with gr.Row(equal_height=False):
                with gr.Column(scale=3, min_width=300):
                    gr.Markdown("### Decision")
                    decision = html()
                    gr.Markdown("### Act by hand")
                    with gr.Row():
                        resource = gr.Dropdown([], label="Resource", min_width=120, elem_id="episode-resource")
                        op = gr.Dropdown([], label="Operation", min_width=120, elem_id="episode-op")
                    preview = html()
                    act = gr.Button("Act", size="sm", min_width=80, elem_id="episode-act")
                with gr.Column(scale=4, min_width=300):
                    day = html()
            with gr.Accordion("Resources: seen and true", open=True):
                table = html()
            with gr.Accordion("Decisions that changed most", open=False) as ranked:
                ranking = html()
            with gr.Accordion("What the model might have said", open=True, visible=False) as talk:
                with gr.Row():
                    size = gr.Slider(2, 32, value=8, step=1, label="Replies", min_width=160)
                    heat = gr.Slider(0.1, 2.0, value=1.0, step=0.1, label="Temperature", min_width=160)
                    ask = gr.Button("Ask the model", size="sm", min_width=120, elem_id="episode-ask")
                group = html()
        timer = gr.Timer(0.6, active=False)

    view = _View(folders)
    shown = [message, head, graph, decision, preview, day, table, ranking, tick]
    where = [play, truth, resource, op]
    tab.select(view.lists, [run], [agent, run], **QUIET)
    source.input(view.sources, [source, run], [suite, agent, run, of_run, seed], **QUIET)
    run.input(view.of_run, [run], [of_run, seed], **QUIET)
    start.click(
        view.open, [source, suite, agent, run, of_run, seed, truth],
        [play, stage, talk, resource, op, group, *shown], **SLOW,
    )  # fmt: skip
    back.click(view.back, where, shown, **QUIET)
    forward.click(view.step, where, shown, **SLOW)
    tick.input(view.jump, [*where, tick], shown, trigger_mode="always_last", **QUIET)
    truth.input(view.show, where, shown, **QUIET)
    gr.on([resource.input, op.input], view.preview, where, [preview], **QUIET)
    act.click(view.act, where, shown, **SLOW)
    again.click(view.again, where, shown, **SLOW)
    end.click(view.finish, where, shown, **SLOW)
    runs.click(view.toggle, [play, runs], [runs, timer], **QUIET)
    timer.tick(view.tick, where, [*shown, runs, timer], **QUIET)
    ranked.expand(view.show, where, shown, **QUIET)
    ask.click(view.ask, [play, size, heat], [group], **SLOW)


def _quiet() -> Any:
    """Nothing to say."""
    return gr.HTML("", visible=False)


class _View:
    """The handlers. What belongs to one person is in the state that they are given."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders

    # ------------------------------------------------------------------ choose
    def lists(self, run: str | None) -> list[Any]:
        """Agents and evaluations, as they are now."""
        with LOADING:
            from evaluation.dashboard.results import evaluations

        known = evaluations(self.folders)
        names = [name for _, name in known]
        chosen = run if run in names else (names[0] if names else None)
        return [gr.Dropdown(agent_choices(self.folders)), gr.Dropdown(known, value=chosen)]

    def sources(self, source: str, run: str | None) -> list[Any]:
        """What has to be chosen."""
        if source == AGENT:
            return [*(gr.Dropdown(visible=shown) for shown in (True, True, False, False)), gr.skip()]
        agents, seed = self._of(run)
        return [
            *(gr.Dropdown(visible=shown) for shown in (False, False, True)),
            gr.Dropdown(**agents, visible=True),
            seed,
        ]

    def of_run(self, run: str | None) -> list[Any]:
        agents, seed = self._of(run)
        return [gr.Dropdown(**agents), seed]

    def _of(self, run: str | None) -> tuple[dict[str, Any], Any]:
        """Agents of an evaluation whose actions were kept, and its first world."""
        from evaluation.dashboard.results import read

        try:
            results = read(self.folders, run) if run else None
        except UserError:
            results = None
        if results is None:
            return {"choices": [], "value": None}, gr.skip()
        names = [name for name, agent in results.played.items() if agent.actions is not None]
        return {"choices": names, "value": names[-1] if names else None}, str(int(results.seeds[0]))

    def open(
        self, source: str, suite: str, agent: str, run: str | None, of_run: str | None, seed: str, truth: bool
    ) -> list[Any]:
        """A new episode, and as much of it as is quickly played."""
        with LOADING:
            from cloudrl.safety.config import SafetyConfig
            from evaluation.dashboard import episode_view
            from evaluation.dashboard.candidates import can_sample
            from evaluation.dashboard.pilots import AgentPilot, of_evaluation, with_agent

        try:
            if source == REPLAY:
                if not run or not of_run:
                    raise UserError(
                        "choose an evaluation and one of its agents; there is none without actions.npz"
                    )
                play = of_evaluation(self.folders, run, of_run, seed)
            else:
                play = with_agent(self.folders, suite, seed, agent, SafetyConfig())
                began = time.monotonic()
                for _ in play.finish():
                    if time.monotonic() - began > AT_ONCE:
                        break
                play.goto(0)
        except (UserError, OSError, ValueError, RuntimeError, ImportError) as error:
            return [*[gr.skip()] * 6, self._problem(error), *[gr.skip()] * 8]
        resources, ops = episode_view.choices(play)
        speaks = isinstance(play.pilot, AgentPilot) and can_sample(play.pilot.player)
        return [
            play, gr.Column(visible=True), gr.Accordion(visible=speaks), gr.Dropdown(resources, value=0),
            gr.Dropdown(ops, value=ops[0][1]), "", *self.show(play, truth, 0, ops[0][1]),
        ]  # fmt: skip

    # ------------------------------------------------------------------ look
    def show(self, play: Playthrough | None, truth: bool, resource: int | None, op: int | None) -> list[Any]:
        """Everything of the tick that is shown."""
        if play is None:
            return [gr.HTML(notice(NOTHING), visible=True), *[gr.skip()] * 8]
        from evaluation.dashboard import day, episode_view

        with play.lock:
            return [
                _quiet(), episode_view.head(play), episode_view.graph(play, truth), episode_view.decision(play),
                episode_view.preview(play, self._action(play, resource, op)), day.day(play),
                episode_view.table(play, truth), episode_view.ranking(play),
                gr.Slider(maximum=play.ticks, value=play.tick),
            ]  # fmt: skip

    def preview(self, play: Playthrough | None, truth: bool, resource: int | None, op: int | None) -> str:
        """What would become of the chosen action."""
        if play is None:
            return ""
        from evaluation.dashboard import episode_view

        with play.lock:
            return episode_view.preview(play, self._action(play, resource, op))

    # ------------------------------------------------------------------ move
    def back(self, play: Playthrough | None, *more: Any) -> list[Any]:
        if play is not None:
            play.goto(play.tick - 1)
        return self.show(play, *more)

    def step(self, play: Playthrough | None, *more: Any) -> list[Any]:
        return self._tried(play, lambda p: p.step(), *more)

    def jump(self, play: Playthrough | None, truth: bool, resource: int, op: int, tick: float) -> list[Any]:
        """To a tick, as far as was played."""
        if play is None:
            return self.show(play, truth, resource, op)
        play.goto(int(tick or 0))
        shown = self.show(play, truth, resource, op)
        if int(tick or 0) > play.played:
            text = f"Played up to tick {play.played} so far: Step and To the end go on."
            return [gr.HTML(notice(text), visible=True), *shown[1:]]
        return shown

    def act(self, play: Playthrough | None, truth: bool, resource: int | None, op: int | None) -> list[Any]:
        """Play what was chosen; the agent's later decisions are forgotten."""
        return self._tried(play, lambda p: p.act(self._action(p, resource, op)), truth, resource, op)

    def again(self, play: Playthrough | None, *more: Any) -> list[Any]:
        """The pilot goes on from here, and as far as is quick."""

        def go_on(p: Playthrough) -> None:
            here = p.tick
            p.go_on()
            began = time.monotonic()
            for _ in p.finish():
                if time.monotonic() - began > AT_ONCE:
                    break
            p.goto(here)

        return self._tried(play, go_on, *more)

    def finish(self, play: Playthrough | None, *more: Any) -> Iterator[list[Any]]:
        """To the end of the day, with a look now and then."""
        if play is None:
            yield self.show(play, *more)
            return
        looked = time.monotonic()
        try:
            for _ in play.finish():
                if time.monotonic() - looked > 1.0:
                    looked = time.monotonic()
                    yield self.show(play, *more)
        except (UserError, OSError, ValueError, RuntimeError) as error:
            yield [self._problem(error), *[gr.skip()] * 8]
            return
        yield self.show(play, *more)

    def toggle(self, play: Playthrough | None, label: str) -> list[Any]:
        """Play and pause. A pause also ends a play to the end."""
        if play is not None:
            play.stopping = True
        playing = play is not None and label == "Play"
        return [gr.Button("Pause" if playing else "Play"), gr.Timer(active=playing)]

    def tick(self, play: Playthrough | None, *more: Any) -> list[Any]:
        """A step while playing."""
        if play is None or play.tick >= play.ticks:
            return [*[gr.skip()] * 9, gr.Button("Play"), gr.Timer(active=False)]
        return [*self.step(play, *more), gr.skip(), gr.skip()]

    # ------------------------------------------------------------------ language models
    def ask(self, play: Playthrough | None, size: float, heat: float) -> Any:
        """A group of replies to the state that is shown."""
        from evaluation.dashboard import candidates, episode_view
        from evaluation.dashboard.pilots import AgentPilot

        if play is None or not isinstance(play.pilot, AgentPilot) or not candidates.can_sample(play.pilot.player):
            return problem("only a language model that trainers.grpo left behind can be asked: choose llm:<run>")
        if play.tick >= play.ticks:
            return problem("the day is over: go back to ask")
        try:
            with play.lock:
                found = candidates.draw(play.pilot.player, play.sim, int(size), float(heat), time.monotonic_ns())
        except (UserError, ValueError, RuntimeError) as error:
            return self._problem(error)
        return episode_view.group(found)

    # ------------------------------------------------------------------ pieces
    def _tried(self, play: Playthrough | None, what: Any, *more: Any) -> list[Any]:
        """Do it, and show what came of it; what goes wrong is said above."""
        if play is None:
            return self.show(play, *more)
        try:
            what(play)
        except (UserError, OSError, ValueError, RuntimeError) as error:
            shown = self.show(play, *more)
            return [self._problem(error), *shown[1:]]
        return self.show(play, *more)

    def _problem(self, error: Exception) -> Any:
        text = " ".join(str(error).split()) or type(error).__name__
        return gr.HTML(problem(text.replace(f"{self.folders.runs}/", "")), visible=True)

    @staticmethod
    def _action(play: Playthrough, resource: int | None, op: int | None) -> int:
        from cloudrl.actions import N_OPS, NOOP

        if op is None or op == NOOP or resource is None:
            return play.sim.noop
        return int(resource) * N_OPS + int(op)
