"""`@command`: how every command of the project starts.

    from cloudrl.cli import command
    from cloudrl.config import PPOConfig

    @command("ppo")                        # configs/ppo.yaml, checked by SCHEMAS["ppo"]
    def main(config: PPOConfig) -> float:
        run = create_run("ppo", config)    # the first thing on disk: the config is valid by now
        ...
        return score                       # what a Hydra sweeper optimises

    if __name__ == "__main__":
        main()

Exit codes: 0 done; 1 wrong input, one line on stderr; 2 an unknown flag; 130 Ctrl-C (main saves, then lets
KeyboardInterrupt pass). CLOUDRL_DEBUG=1 shows tracebacks. Errors that are our own fault always show theirs.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import hydra
import yaml
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cloudrl import runs
from cloudrl.compose import curriculum_scenarios, explain, hydra_at, search_dirs, use_config_dirs
from cloudrl.config import CONFIG_DIR, SCHEMAS, to_config
from cloudrl.errors import UserError
from cloudrl.scenarios.estate import with_estate

Main = Callable[[Any], Any]

# With these a person can do something: their message says what, a traceback would only hide it.
_USER_ERRORS = (ValueError, OSError, HydraException, OmegaConfBaseException, yaml.YAMLError)


def command(name: str) -> Callable[[Main], Callable[..., None]]:
    """Turn main(config) into the entry point of `configs/<name>.yaml`; call it without arguments, or with argv."""
    schema = SCHEMAS[name]

    def decorate(main: Main) -> Callable[..., None]:
        @functools.wraps(main)
        def task(cfg: DictConfig) -> Any:
            with _one_line_errors(schema), _environment(HYDRA_FULL_ERROR=given):
                return main(_checked(cfg, name, list(HydraConfig.get().overrides.task)))

        @functools.wraps(main)
        def entry(argv: Sequence[str] | None = None) -> None:
            arguments = list(sys.argv[1:] if argv is None else argv)
            with _one_line_errors(schema), _argv(arguments):
                _check_arguments(arguments, name)
                # Hydra formats errors itself unless told to hand them over whole.
                with _environment(HYDRA_FULL_ERROR="1"):
                    hydra.main(version_base="1.3", config_path=CONFIG_DIR, config_name=name)(task)()

        return entry

    given = os.environ.get("HYDRA_FULL_ERROR")
    return decorate


def _checked(cfg: DictConfig, name: str, overrides: list[str]) -> Any:
    """The config as dataclasses, everything it refers to looked up: after this, nothing in it is unknown."""
    schema = SCHEMAS[name]
    resume = OmegaConf.select(cfg, "resume")
    config: Any = to_config(cfg if resume is None else _resumed(cfg, name, overrides), schema)
    path = getattr(getattr(config, "memory", None), "path", None)
    if path is not None and not Path(path).is_file():
        raise UserError(f"memory.path={path}: no such file")
    scenario = getattr(config, "scenario", None)
    if scenario is not None:
        if scenario.path is None and not scenario.topology.train:
            raise UserError(f"scenario={scenario.name}: has no topology; say scenario.path=<your estate>.yaml")
        config.scenario = with_estate(scenario)  # so that the run folder holds what was really trained on
    if getattr(config, "curriculum", None) is not None:
        curriculum_scenarios(config)
    return config


def _resumed(cfg: DictConfig, name: str, overrides: list[str]) -> DictConfig:
    """The config of the run that is resumed, with single values of this command line on top.

    Choices of whole groups are the run's own: repeating them is fine, changing them is another run.
    """
    run, _ = runs.resume_point(cfg.resume, name)
    saved = OmegaConf.merge(OmegaConf.structured(SCHEMAS[name]), OmegaConf.load(run.config_file))
    assert isinstance(saved, DictConfig)
    with hydra_at():
        loader = GlobalHydra.instance().config_loader()
        groups = set(loader.list_groups(""))
        parsed = OverridesParser.create(loader).parse_overrides(overrides)
    before = [text.lstrip("+") for text in run.overrides()]
    for override in parsed:
        key, text = override.key_or_group, (override.input_line or "").lstrip("+")
        if key in groups or override.is_delete():
            if text not in before:
                raise UserError(f"{text}: {run.path} was started without it; start a new run to change it")
        elif key == "seed" and cfg.seed != saved.seed:
            raise UserError(f"seed={cfg.seed}: {run.path} has seed {saved.seed}; start a new run to change it")
        elif OmegaConf.select(cfg, key, throw_on_missing=False) is not None or key in cfg:
            OmegaConf.update(saved, key, OmegaConf.select(cfg, key), force_add=True)
    # Whose files are trusted is said by the person who resumes, never by the run.
    for key in ("resume", "runs_dir", "trust"):
        saved[key] = cfg[key]
    return saved


def _check_arguments(arguments: list[str], name: str) -> None:
    """Unknown flags end here; so does a sweep of which any job is wrong, before its first one starts."""
    parser = get_args_parser()
    parser.error = _usage_error  # type: ignore[method-assign]
    args = parser.parse_args(arguments)
    use_config_dirs([args.config_dir] if args.config_dir else [])
    if not args.multirun or args.help or args.hydra_help:
        return
    tree = str(Path(args.config_path).resolve()) if args.config_path else CONFIG_DIR
    dirs = search_dirs([args.config_dir] if args.config_dir else [])
    with hydra_at(tree):
        overrides = OverridesParser.create(GlobalHydra.instance().config_loader()).parse_overrides(args.overrides)
        if any(o.is_sweep_override() and not o.is_discrete_sweep() for o in overrides):
            return  # for another sweeper than Hydra's own, which decides on its jobs as it goes
        jobs = BasicSweeper.split_arguments(overrides, None)[0]
    for job in jobs:
        with hydra_at(tree):
            cfg = hydra.compose(args.config_name or name, overrides=[*job, *dirs])
        _checked(cfg, name, job)


def _usage_error(message: str) -> NoReturn:
    _print_line(f"{message}; options are written key=value, flags are listed by --help")
    raise SystemExit(2)


@contextmanager
def _one_line_errors(schema: type) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        _print_line("interrupted")
        raise SystemExit(130) from None
    except BrokenPipeError:  # `... --help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except _USER_ERRORS as error:
        if os.environ.get("CLOUDRL_DEBUG") == "1":
            raise
        line = explain(error, schema)
        if not isinstance(error, (UserError, HydraException, OmegaConfBaseException, yaml.YAMLError)):
            line += " (CLOUDRL_DEBUG=1 shows where)"
        _print_line(line)
        raise SystemExit(1) from None


def _print_line(text: str) -> None:
    print("cloudrl:", " ".join(text.split()), file=sys.stderr, flush=True)


@contextmanager
def _argv(arguments: list[str]) -> Iterator[None]:
    """Hydra reads sys.argv."""
    before = sys.argv
    sys.argv = [before[0], *arguments]
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def _environment(**variables: str | None) -> Iterator[None]:
    """Environment variables for a while; None removes one."""
    before = {name: os.environ.get(name) for name in variables}
    _set_environment(variables)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
