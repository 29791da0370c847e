"""Configs without a command line: compose, load a scenario by name, explain what is wrong with one.

config = compose("ppo", ["+curriculum=easy", "seed=3"])
scenario = load_scenario("easy", {"failures.failure_rate": 0.0})
"""

from __future__ import annotations

import copy
import functools
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cloudrl.config import CONFIG_DIR, SCHEMAS, PPOConfig, known_keys, suggest_key, to_config
from cloudrl.errors import UserError, did_you_mean
from cloudrl.scenarios.estate import with_estate
from cloudrl.scenarios.ranges import check_scenario
from cloudrl.scenarios.schema import Scenario

_LOCK = threading.RLock()  # Hydra's state is global


@contextmanager
def hydra_at(config_dir: str = CONFIG_DIR) -> Iterator[None]:
    """Hydra initialised on a tree of configs; whatever was initialised before comes back afterwards."""
    with _LOCK:
        before = GlobalHydra.instance().hydra
        GlobalHydra.instance().clear()  # inside a command Hydra is initialised already, and refuses to be twice
        try:
            with initialize_config_dir(config_dir, version_base="1.3"):
                yield
        finally:
            GlobalHydra.instance().hydra = before


def search_dirs(config_dirs: Iterable[str]) -> list[str]:
    """The override that adds folders of configs (--config-dir)."""
    dirs = [f"'file://{Path(d).resolve()}'" for d in config_dirs]
    return [f"hydra.searchpath=[{','.join(dirs)}]"] if dirs else []


def compose(command: str, overrides: Sequence[str] = (), config_dirs: Sequence[str] = ()) -> Any:
    """The checked config that a command would get for these arguments. Raises UserError."""
    schema = SCHEMAS[command]
    try:
        with hydra_at():
            cfg = hydra_compose(command, overrides=[*overrides, *search_dirs(config_dirs)])
    except Exception as error:
        raise UserError(explain(error, schema)) from error
    return to_config(cfg, schema)


def options(group: str) -> list[str]:
    """Names in a group of the shipped configs: options("scenario")."""
    with hydra_at():
        return list(GlobalHydra.instance().config_loader().get_group_options(group))


def load_scenario(name: str, overrides: Mapping[str, Any] | None = None, where: str = "scenario") -> Scenario:
    """The scenario of configs/scenario/<name>.yaml with dotted keys changed, checked.

    Inside a command the folders of --config-dir are searched too. `where` begins the message of an error.
    """
    try:
        cfg = copy.deepcopy(_scenario_config(name, tuple(_extra_dirs())))
    except UserError as error:
        raise UserError(str(error) if where == "scenario" else f"{where}: {error}") from error
    for key, value in (overrides or {}).items():
        if key not in known_keys(Scenario):
            raise UserError(f"{where}: {key}: no such key of a scenario; {suggest_key(key, Scenario)}")
        try:
            OmegaConf.update(cfg, key, value)
        except OmegaConfBaseException as error:
            raise UserError(f"{where}: {key}={value}: {_first_line(error)}") from error
    scenario: Scenario = OmegaConf.to_object(cfg)  # type: ignore[assignment]
    check_scenario(where, scenario)
    try:
        return with_estate(scenario)
    except UserError as error:
        raise UserError(str(error) if where == "scenario" else f"{where}: {error}") from error


@functools.lru_cache(maxsize=64)
def _scenario_config(name: str, dirs: tuple[str, ...]) -> DictConfig:
    try:
        with hydra_at():
            cfg = hydra_compose("ppo", overrides=[f"scenario={name}", *search_dirs(dirs)])
    except Exception as error:
        raise UserError(explain(error, PPOConfig)) from error
    cfg = cfg.scenario
    OmegaConf.resolve(cfg)
    return cfg.copy()


def curriculum_scenarios(config: PPOConfig) -> list[Scenario]:
    """One scenario per stage, all with the same number of slots, so that one network sees every stage."""
    stages = config.curriculum.stages
    out = [load_scenario(s.scenario, s.overrides, f"curriculum stage '{s.name}'") for s in stages]
    largest = max((s.slots for s in out), default=0)
    slots = config.curriculum.slots or largest
    if slots < largest:
        raise UserError(f"curriculum.slots={slots}: a stage needs {largest}; leave it out or raise it")
    for scenario in out:
        scenario.slots = slots
    return out


def target_scenario(config: PPOConfig) -> Scenario:
    """What training is for: the last stage of the curriculum, or `scenario` without one."""
    return curriculum_scenarios(config)[-1] if config.curriculum.stages else config.scenario


_DIRS: list[str] = []


def use_config_dirs(config_dirs: Iterable[str]) -> None:
    """Scenarios are looked up in these folders too, from now on (the command line's --config-dir)."""
    _DIRS[:] = [str(Path(d).resolve()) for d in config_dirs]


def _extra_dirs() -> list[str]:
    """Folders of --config-dir and, inside a command, of hydra.searchpath."""
    if not HydraConfig.initialized():
        return _DIRS
    sources = HydraConfig.get().runtime.config_sources
    dirs = [str(s.path) for s in sources if s.schema == "file" and s.provider not in ("hydra", "main", "schema")]
    return list(dict.fromkeys([*_DIRS, *(d for d in dirs if Path(d).is_dir())]))


def explain(error: BaseException, schema: type | None = None) -> str:
    """One line for an error of Hydra, OmegaConf or yaml: what is wrong, where, what to do."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, MissingConfigException):
        return _explain_missing(error)
    if isinstance(error, OverrideParseException):
        return f"cannot read the argument '{error.override}': write key=value, or group=option"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{mark.name}, line {mark.line + 1}: not valid yaml: {error.problem}"
    text = str(error)
    if error.__cause__ is not None:
        text += f"\n{error.__cause__}"
    return _explain_text(text, schema)


def _explain_missing(error: MissingConfigException) -> str:
    missing = error.missing_cfg_file or ""
    group, _, option = missing.rpartition("/")
    if not group:
        return f"no config named '{missing}'; {did_you_mean(missing, SCHEMAS)}"
    return f"{group}={option}: no such option; {did_you_mean(option, error.options or [])}"


def _explain_text(text: str, schema: type | None) -> str:
    key = _find(r"full_key: (\S+)", text)
    # The object's own key is appended by OmegaConf as "ppo.gama"; a file is named by Hydra as "In 'ppo': ...".
    file = _find(r"In '([^']+)':", text)
    source = f" (in {file}.yaml)" if file else ""
    override = _find(r"Error merging override (.+)", text)
    if m := re.search(r"Could not override '([^']+)'\.\s+No match in the defaults list\.\s.*use (\S+)", text):
        return f"{m[1]} has no default that could be changed: say {m[2]}, with the plus"
    if m := re.search(r"Multiple values for (\S+)\.", text):
        return f"{m[1]} has a default or is given twice: say {m[1]}=..., once and without the plus"
    if m := re.search(r"Ambiguous value for argument '(\S+)'", text):
        return f"{m[1]}: several values for one run; add -m to run each, or write [..] for a list"
    if key and re.search(r"Key '\S+' (not in|is not in struct)", text):
        hint = suggest_key(key, schema) if schema else "see --cfg job for the keys"
        return f"{key}: no such key; {hint}{source}"
    if key and (reason := _find(r"^((?:Value|Invalid|Cannot|Incompatible|Interpolation)[^\n]*)", text)):
        return f"{override or key}: {_plain(reason)}{source}"
    if override and "is not Optional" in text:
        return f"{override}: must have a value"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    useful = [line for line in lines if not re.match(r"(full_key|object_type|reference_type|See https)", line)]
    return " ".join(useful) or "the config cannot be composed"


def _plain(reason: str) -> str:
    """OmegaConf speaks of Python types; say it as a person would."""
    if m := re.match(r"Value '(.*)' of type '\w+' could not be converted to (\w+)", reason):
        kinds = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false", "String": "text"}
        return f"must be {kinds.get(m[2], m[2])}, not '{m[1]}'"
    if m := re.match(r"Invalid value '(.*)', expected one of \[(.*)\]", reason):
        return f"'{m[1]}' is none of {m[2]}"
    if m := re.match(r"Value '(.*)' is not a valid bool", reason):
        return f"must be true or false, not '{m[1]}'"
    return reason


def _find(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1].strip() if found else None


def _first_line(error: BaseException) -> str:
    return _plain((str(error).splitlines() or [""])[0])
