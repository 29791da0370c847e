"""How fast are the worlds and the training? Ratios measured side by side in one process.

    python scripts/bench.py env        steps per second against plain Python objects of the same rules
    python scripts/bench.py scaling    cost per resource as a world grows to 1,000 resources
    python scripts/bench.py fork       snapshot, fork, restore and peek of one world
    python scripts/bench.py grpo       sampling and update of a group of replies against TRL's own methods
    python scripts/bench.py ppo        steps per second of training, learning included
    python scripts/bench.py aws        a step and a fork of CloudEnv, and its server under 64 sessions
    python scripts/bench.py time_to_quality    processor seconds until half the best gain on Easy (minutes)

Figures are medians over repetitions in which all subjects take turns, per second of processor time of one thread
(--clock cpu): on an idle core that is the time on the wall, on a busy one it leaves other programs out. Ratios are
safe to quote from a loaded machine, steps per second less so: the load stands in the second line.
docs/benchmarks.md holds the results and what must be reached.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the twin lives in tests/

import numpy as np

from cloudrl import Simulator
from cloudrl.scenarios.library import load_scenario
from cloudrl.scenarios.scale import scaled_scenario
from tests.core.play import random_actions
from tests.twin import TwinEnv

CLOCKS: dict[str, Callable[[], float]] = {"cpu": time.process_time, "wall": time.perf_counter}

Subject = tuple[Callable[[], None], Callable[[], None], int]
"""(prepare, untimed; work, timed; units of work done)."""


# ---------------------------------------------------------------------------------------------------- measuring
def measure(subjects: dict[str, Subject], args: argparse.Namespace) -> dict[str, np.ndarray]:
    """Seconds per unit of work of every subject, (repetitions,). All take turns within a repetition."""
    clock = CLOCKS[args.clock]
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for repetition in range(args.repetitions + 1):
        for name, (prepare, work, units) in subjects.items():
            prepare()
            start = clock()
            work()
            if repetition:  # the first one compiles and warms the caches
                seconds[name].append((clock() - start) / units)
    return {name: np.array(values) for name, values in seconds.items()}


def ratio(slow: np.ndarray, fast: np.ndarray) -> float:
    """How many times faster, the median over repetitions."""
    return float(np.median(slow / fast))


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    import numba

    model = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": model,
        "cores": os.cpu_count(),
        "load": [round(x, 1) for x in os.getloadavg()],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def report(title: str, header: list[str], rows: list[list[str]], args: argparse.Namespace, data: Any) -> None:
    """Print the table and write the json file."""
    about = machine()
    print(f"{title}\n{about['cpu']}, {about['cores']} cores, load {about['load'][0]}, {about['date']}, "
          f"{args.repetitions} repetitions, {args.clock} seconds\n")  # fmt: skip
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]
    for row in [header, ["-" * w for w in widths], *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:]))]
        print("| " + " | ".join(cells) + " |")
    if args.json:
        Path(args.json).write_text(
            json.dumps({"title": title, "machine": about, "results": data}, indent=2) + "\n"
        )


def verdict(value: float, target: float, at_most: bool = False) -> str:
    """The target with whether it is met."""
    met = value <= target if at_most else value >= target
    return f"{'<=' if at_most else '>='} {target:g} {'met' if met else 'MISSED'}"


# ---------------------------------------------------------------------------------------------------- env
def record_play(sim: Simulator, ticks: int) -> np.ndarray:
    """Actions (ticks, B) of random play under the mask from a reset on: half NOOP, a tenth any index at all."""
    rng = np.random.default_rng(0)
    sim.reset(np.arange(sim.n_worlds))
    actions = []
    for _ in range(ticks):
        actions.append(random_actions(rng.random((sim.n_worlds, 2)), sim.masks))
        sim.step(actions[-1])
    return np.array(actions)


def replay(sim: Simulator, ticks: int, look: bool = True) -> Subject:
    """A recorded play, from a reset on."""
    actions = record_play(sim, ticks)

    def work() -> None:
        for row in actions:
            sim.step(row, look)

    return lambda: discard(sim.reset(np.arange(sim.n_worlds))), work, actions.size


def discard(_: Any) -> None:
    """For lambdas that return nothing."""


def bench_env(args: argparse.Namespace) -> None:
    """The twin plays world 0; so do the scalar environments; batches play it and others."""
    from envs.cloudops.env import CloudOpsEnv

    scenario = load_scenario("medium")
    ticks = args.ticks or scenario.horizon.ticks
    actions = [int(a) for a in record_play(Simulator(scenario), ticks)[:, 0]]
    twin, env = TwinEnv(scenario), CloudOpsEnv(scenario)

    def play_twin() -> None:
        for action in actions:
            twin.step(action)
            twin.action_masks()

    def play_env() -> None:
        for action in actions:
            env.step(action)

    subjects: dict[str, Subject] = {
        "twin: plain Python objects": (lambda: discard(twin.reset(seed=0)), play_twin, ticks),
        "gymnasium env, B=1": (lambda: discard(env.reset(options={"world_seed": 0})), play_env, ticks),
        "Simulator.step, B=1": replay(Simulator(scenario), ticks),
        **{f"Simulator.step, B={b}": replay(Simulator(scenario, b), ticks) for b in (64, 256, 1024)},
        "bare dynamics, B=64": replay(Simulator(scenario, 64), ticks, look=False),
        "bare dynamics, B=256": replay(Simulator(scenario, 256), ticks, look=False),
    }
    seconds = measure(subjects, args)
    slow = seconds["twin: plain Python objects"]
    targets: dict[str, tuple[float, float]] = {  # ratio, steps per second
        "gymnasium env, B=1": (30, 0),
        "Simulator.step, B=1": (30, 0),
        **{f"Simulator.step, B={b}": (100, 4e5) for b in (64, 256, 1024)},
        "bare dynamics, B=64": (0, 8e5),
        "bare dynamics, B=256": (0, 8e5),
    }
    rows, data = [], {}
    for name, values in seconds.items():
        least_ratio, least_speed = targets.get(name, (0, 0))
        speed, times = 1.0 / float(np.median(values)), ratio(slow, values)
        rows.append(
            [
                name, f"{speed:,.0f}", f"{times:,.0f}x",
                verdict(times, least_ratio) if least_ratio else "",
                verdict(speed, least_speed) if least_speed else "",
            ]
        )  # fmt: skip
        data[name] = {"steps_per_second": speed, "ratio": times}
    title = f"Environment steps, {scenario.name} (12 resources), mask and observation unless bare"
    report(title, ["", "steps/s", "ratio", "target ratio", "target steps/s"], rows, args, data)


# ---------------------------------------------------------------------------------------------------- scaling
SIZES = (12, 50, 200, 1000)
RESOURCES_AT_ONCE = 4_000
"""Worlds x resources, the same at every size, so that no size has more of the cache than another."""


def bench_scaling(args: argparse.Namespace) -> None:
    """Synthetic shapes with about two dependencies per service at any size."""
    subjects = {}
    for n in SIZES:
        sim = Simulator(scaled_scenario(n), max(1, RESOURCES_AT_ONCE // n))
        prepare, work, steps = replay(sim, args.ticks or 48)
        subjects[str(n)] = (prepare, work, steps * n)
    seconds = measure(subjects, args)
    rows, data = [], {}
    for n in SIZES:
        values = seconds[str(n)]
        growth = float(np.median(values / seconds[str(SIZES[0])]))
        nanoseconds = 1e9 * float(np.median(values))
        rows.append([str(n), f"{nanoseconds:.0f}", f"{growth:.2f}", verdict(growth, 1.5, at_most=True)])
        data[n] = {"ns_per_resource_step": nanoseconds, "against_12": growth}
    report(
        "Cost of a resource in a step with mask and observation, by the size of the world",
        ["resources", "ns", "against 12", "target"], rows, args, data,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------- fork
def bench_fork(args: argparse.Namespace) -> None:
    """Copies of one world out of 64."""
    sim = Simulator(load_scenario("medium"), 64)
    record_play(sim, 40)
    saved, noops = sim.snapshot(3), np.full(8, sim.noop)
    calls: dict[str, tuple[Callable[[], Any], float]] = {
        "snapshot": (lambda: sim.snapshot(3), 20),
        "fork": (lambda: sim.fork(3), 20),
        "fork, luck resampled": (lambda: sim.fork(3, luck="resampled"), 0),
        "fork into 8": (lambda: sim.fork(3, 8), 0),
        "restore (and look)": (lambda: sim.restore(saved, 3), 0),
        "peek at 1 action": (lambda: sim.peek(3, noops[:1]), 0),
        "peek at 8 actions": (lambda: sim.peek(3, noops), 0),
    }
    count = args.ticks or 500

    def repeat(call: Callable[[], Any]) -> Callable[[], None]:
        def work() -> None:
            for _ in range(count):
                call()

        return work

    seconds = measure({name: (lambda: None, repeat(call), count) for name, (call, _) in calls.items()}, args)
    rows, data = [], {}
    for name, (_, most) in calls.items():
        microseconds = 1e6 * float(np.median(seconds[name]))
        rows.append([name, f"{microseconds:.1f}", verdict(microseconds, most, at_most=True) if most else ""])
        data[name] = {"microseconds": microseconds}
    report("Copies of one world of 12 resources", ["", "microseconds", "target"], rows, args, data)


# ---------------------------------------------------------------------------------------------------- ppo
class Training:
    """A model that is trained rollout by rollout."""

    def __init__(self, model: Any) -> None:
        self.model = model
        _, self.callback = model._setup_learn(10**9)
        self.steps = model.n_steps * model.n_envs

    def rollout(self) -> None:
        """Collect, then learn."""
        model = self.model
        model.collect_rollouts(model.env, self.callback, model.rollout_buffer, model.n_steps)
        model.train()


def stock_model() -> Any:
    """sb3-contrib as most people run it, on plain Python worlds."""
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    worlds = DummyVecEnv([lambda: TwinEnv(load_scenario("medium")) for _ in range(8)])
    usual = {"n_steps": 128, "batch_size": 64, "n_epochs": 10}
    return MaskablePPO("MlpPolicy", worlds, **usual, seed=0, policy_kwargs={"net_arch": [64, 64]}, device="cpu")


def fast_model(policy: str, **changes: Any) -> Any:
    """The trainer's model and worlds with the sizes of configs/ppo.yaml."""
    from cloudrl.compose import compose
    from trainers.common import build

    settings = {"scenario": "medium", "ppo.policy": policy, "device": "cpu", **changes}
    config = compose("ppo", [f"{key}={value}" for key, value in settings.items()])
    worlds = build.make_worlds(config, config.scenario, build.make_memory(config))
    return build.make_model(config, worlds)


def limit_subject(model: Any) -> Subject:
    """Forward and backward passes that a rollout and its learning cannot do without, and nothing else."""
    import torch as th

    from evaluation.agents.networks import policy_inputs, policy_outputs

    policy, rollout = model.policy, model.n_steps * model.n_envs
    acting = policy_inputs(policy, th.rand(model.n_envs, *model.observation_space.shape))
    batch = policy_inputs(policy, th.rand(model.batch_size, *model.observation_space.shape))
    d_logits, d_values = th.rand(model.batch_size, int(model.action_space.n)), th.rand(model.batch_size)

    def work() -> None:
        with th.no_grad():
            for _ in range(model.n_steps):
                policy_outputs(policy, acting)
        for _ in range(model.n_epochs * rollout // model.batch_size):
            policy.zero_grad()
            th.autograd.backward(policy_outputs(policy, batch), (d_logits, d_values))

    return lambda: None, work, rollout


def bench_ppo(args: argparse.Namespace) -> None:
    """Steps per second of whole training."""
    import torch as th

    th.set_num_threads(1)
    overrides = dict(override.split("=", 1) for override in args.override)
    plain = {"memory": "off", "ppo.control_variate": "none", "ppo.target_kl": "null", **overrides}
    stock, mlp, default = "stock MaskablePPO, DummyVecEnv of the twin", "fast, mlp", "fast, set policy (default)"
    models = {
        stock: stock_model(),
        mlp: fast_model("mlp", **plain),
        default: fast_model("set", **plain),
        "fast, set policy, as the trainer runs it": fast_model("set", **overrides),
    }
    trainings = {name: Training(model) for name, model in models.items()}
    subjects: dict[str, Subject] = {
        name: (lambda: None, training.rollout, training.steps) for name, training in trainings.items()
    }
    limits = {mlp: "limit of the mlp: forward and backward alone", default: "limit of the set policy"}
    for name, limit in limits.items():
        subjects[limit] = limit_subject(models[name])
    seconds = measure(subjects, args)
    least = {mlp: 15.0, default: 8.0}
    rows, data = [], {}
    for name, values in seconds.items():
        speed, times = 1.0 / float(np.median(values)), ratio(seconds[stock], values)
        rows.append([name, f"{speed:,.0f}", f"{times:.1f}x", verdict(times, least[name]) if name in least else ""])
        data[name] = {"steps_per_second": speed, "ratio": times}
    for name, limit in limits.items():
        share = 100.0 * ratio(seconds[limit], seconds[name])
        rows.append(
            [f"share of its limit: {name}", f"{share:.0f} %", "", verdict(share, 60) if name == mlp else ""]
        )
        data[limit]["share_reached"] = share
    changed = "".join(f", {override}" for override in args.override)
    title = f"MaskablePPO on Medium (12 resources), steps per second, learning included{changed}"
    report(title, ["", "steps/s", "ratio", "target"], rows, args, data)


def bench_time_to_quality(args: argparse.Namespace) -> None:
    """The trainer against the stock stack."""
    import torch as th
    from bench_quality import time_to_quality

    th.set_num_threads(1)
    found = time_to_quality(args.seconds, args.seed)
    fast, stock = (found["seconds_to_goal"][name] for name in ("trainer", "stock"))
    spent = {"trainer": args.seconds, "stock": found["stock_seconds"]}
    rows = []
    for name, seconds in found["seconds_to_goal"].items():
        reached = f"{seconds:.1f}" if seconds is not None else f"not in {spent[name]:.0f}"
        rows.append([name, reached, f"{found['best_of'][name]:.1f}", ""])
    if fast is not None:
        times = (stock if stock is not None else spent["stock"]) / fast
        rows.append(["sooner", f"{'' if stock is not None else 'over '}{times:.1f}x", "", verdict(times, 5)])
    title = (
        f"Processor seconds until the sampled policy earns half the best gain on Easy, seed {args.seed}: "
        f"reward {found['goal']:.1f}, doing nothing {found['noop']:.1f}"
    )
    report(title, ["", "seconds", "best reward", "target"], rows, args, found)


def bench_aws(args: argparse.Namespace) -> None:
    """CloudEnv."""
    import bench_aws as aws

    count = args.ticks or 400
    steps = 1e3 * np.array(aws.step_seconds(count, CLOCKS[args.clock]))
    builds = 1e3 * np.array(aws.build_seconds(max(3, count // 20), CLOCKS[args.clock]))
    forks, fork_work = (1e3 * np.array(seconds) for seconds in aws.fork_seconds(max(3, count // 10)))
    load = aws.server_load(64, 20)
    median = {name: float(np.median(ms)) for name, ms in (("step", steps), ("build", builds), ("fork", forks))}
    rows = [
        ["step: act, read, diff, reward; median", f"{median['step']:.1f} ms", verdict(median["step"], 10, True)],
        ["step, 95th percentile", f"{np.percentile(steps, 95):.1f} ms", ""],
        ["build, break and read a pipeline; median", f"{median['build']:.0f} ms", ""],
        ["fork of a built episode; median, wall", f"{median['fork']:.1f} ms", verdict(median["fork"], 30, True)],
        ["fork, the fastest", f"{forks.min():.1f} ms", ""],
        ["fork, processor time of all processes; median", f"{np.median(fork_work):.1f} ms", ""],
        [
            "server: from its start to /health, wall", f"{load['start_seconds']:.1f} s",
            verdict(load["start_seconds"], 3, True),
        ],
        [
            "server: steps in all, 64 sessions of 20, wall", f"{load['steps_per_second']:.0f}/s",
            verdict(load["steps_per_second"], 60),
        ],
        ["server: steps in a second of its processor time", f"{load['steps_per_processor_second']:.0f}/s", ""],
        ["server: latency of a step, median", f"{load['latency_median_ms']:.0f} ms", ""],
        ["server: 64 episodes begun at once", f"{load['episodes_per_second']:.1f}/s", ""],
    ]  # fmt: skip
    report(f"CloudEnv, {aws.TASK} (4 resources), moto in process", ["", "measured", "target"], rows, args,
           {**median, **load})  # fmt: skip


def bench_grpo(args: argparse.Namespace) -> None:
    """Sampling and update of GRPO groups against TRL's own methods."""
    import bench_grpo as grpo

    rows, data = grpo.bench(states=1, repetitions=args.repetitions)
    report(f"GRPO, SmolLM2-135M, {grpo.SHAPE}", grpo.HEADER, rows, args, data)


COMMANDS = {
    "aws": bench_aws,
    "grpo": bench_grpo,
    "env": bench_env,
    "scaling": bench_scaling,
    "fork": bench_fork,
    "ppo": bench_ppo,
    "time_to_quality": bench_time_to_quality,
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=COMMANDS)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument(
        "--ticks", type=int, help="length of a play; of `fork`, how many calls (default: by benchmark)"
    )
    parser.add_argument("--override", nargs="*", default=[], help="of `ppo`: settings such as ppo.width=48")
    parser.add_argument("--seconds", type=float, default=60.0, help="of `time_to_quality`: of training")
    parser.add_argument("--seed", type=int, default=0, help="of `time_to_quality`")
    parser.add_argument("--clock", choices=CLOCKS, default="cpu")
    parser.add_argument("--json", metavar="FILE", help="also write the figures here")
    args = parser.parse_args(arguments)
    COMMANDS[args.what](args)


if __name__ == "__main__":
    main()
