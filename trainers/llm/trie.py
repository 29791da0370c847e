"""The exact probability of every action, from one forward pass over prompt + trie of their texts.

Actions share their beginnings: `{"action":"PATCH","resource":"r` once, then one branch per resource. The
nodes of that trie lie behind the prompt in one row, each sees the prompt and its ancestors, and log pi(a|s)
of an action is the sum over its path. No sampling, no variance: the gradient of the expected reward itself.

Only choices are counted. Tokens that follow with necessity (one child) have probability near 1 after the warm
start; leaving them out makes the row several times shorter, but nothing then keeps them there. So the whole paths
of a few `forced` actions lie in the row as well, and the log-probability of their forced tokens is a loss of
its own.

It counts the canonical tokens of an action's text; other spellings of the same JSON are left out.

Shapes: N states, P tokens of the longest prompt, A actions, T nodes, E choices (branches), F forced tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch as th

from evaluation.agents.lm_sampling import positions
from trainers.llm.packing import additive

ROOT = -1


class _Node(NamedTuple):
    token: int
    parent: int
    depth: int


class Trie:
    """Texts of actions as a tree of tokens.

    Args:
        sequences: tokens of every action, end token included.
        forced: actions whose forced tokens are in the row too; None = of all actions.
    """

    def __init__(self, sequences: Sequence[Sequence[int]], forced: Collection[int] | None = ()) -> None:
        nodes: list[_Node] = []
        index: dict[tuple[int, int], int] = {}
        children: dict[int, list[int]] = {ROOT: []}
        paths = []
        for sequence in sequences:
            parent, path = ROOT, []
            for depth, token in enumerate(sequence):
                if (parent, token) not in index:
                    index[parent, token] = len(nodes)
                    children[parent].append(len(nodes))
                    children[len(nodes)] = []
                    nodes.append(_Node(token, parent, depth))
                parent = index[parent, token]
                path.append(parent)
            paths.append(path)
        spelled = range(len(sequences)) if forced is None else forced
        whole = {node for action in spelled for node in (ROOT, *paths[action])}
        choosing = {node for node, below in children.items() if len(below) > 1}
        single = {node for node in whole if len(children[node]) == 1}

        rows = set()
        for node in choosing | single:
            while node != ROOT:
                rows.add(node)
                node = nodes[node].parent
        order = sorted(rows)
        place = {node: k for k, node in enumerate(order)} | {ROOT: ROOT}
        self.tokens = th.tensor([nodes[node].token for node in order], dtype=th.long)
        self.depths = th.tensor([nodes[node].depth for node in order], dtype=th.long)
        self.sees = th.zeros(len(order), len(order), dtype=th.bool)
        for k, node in enumerate(order):
            if nodes[node].parent != ROOT:
                self.sees[k] = self.sees[place[nodes[node].parent]]
            self.sees[k, k] = True

        predicting = sorted({place[node] for node in choosing | single})
        where = {p: k for k, p in enumerate(predicting)}
        self.predicting = th.tensor(predicting, dtype=th.long)  # (U,): rows that are asked for their next token
        choices = [child for node in choosing for child in children[node]]
        self.choice_at = th.tensor([where[place[nodes[child].parent]] for child in choices], dtype=th.long)
        self.choice_token = th.tensor([nodes[child].token for child in choices], dtype=th.long)
        column = {child: k for k, child in enumerate(choices)}
        self.path = th.zeros(len(choices), len(sequences))  # (E, A): which choices an action makes
        for action, path in enumerate(paths):
            for node in path:
                if node in column:
                    self.path[column[node], action] = 1.0
        self.forced_at = th.tensor([where[place[node]] for node in single], dtype=th.long)
        self.forced_token = th.tensor([nodes[children[node][0]].token for node in single], dtype=th.long)

    def mask(self, prompt_mask: th.Tensor) -> th.Tensor:
        """(N, P + T, P + T) bool: who may look at whom."""
        n, p = prompt_mask.shape
        size = p + len(self.tokens)
        index = th.arange(p)
        allowed = th.zeros(size, size, dtype=th.bool)
        allowed[:p, :p] = index[None, :] <= index[:, None]
        allowed[p:, :p] = True
        allowed[p:, p:] = self.sees
        allowed = allowed.to(prompt_mask.device)
        if bool(prompt_mask.all()):
            return allowed[None].expand(n, -1, -1)
        real = th.cat([prompt_mask.bool(), prompt_mask.new_ones(n, size - p, dtype=th.bool)], 1)
        return (allowed[None] & real[:, None, :]) | th.eye(size, dtype=th.bool, device=real.device)


def action_logps(
    model: Any,
    trie: Trie,
    prompt_ids: th.Tensor,
    prompt_mask: th.Tensor,
    temperature: float,
    dtype: th.dtype,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> tuple[th.Tensor, th.Tensor]:
    """(log-probabilities of all actions (N, A), of the forced tokens (N, F)), float32 and differentiable.

    `dtype` is that of the attention mask: what the model computes in.
    """
    n, p = prompt_ids.shape
    device = prompt_ids.device
    ids = th.cat([prompt_ids, trie.tokens.to(device).expand(n, -1)], 1)
    behind = prompt_mask.sum(1, keepdim=True) + trie.depths.to(device)
    place = th.cat([positions(prompt_mask), behind], 1)
    with autocast():
        logits = model(
            input_ids=ids, position_ids=place, attention_mask=additive(trie.mask(prompt_mask), dtype),
            use_cache=False, logits_to_keep=p + trie.predicting.to(device),
        ).logits  # fmt: skip
    logs = th.log_softmax(logits.float() / temperature, -1)
    choices = logs[:, trie.choice_at.to(device), trie.choice_token.to(device)]
    forced = logs[:, trie.forced_at.to(device), trie.forced_token.to(device)]
    return choices @ trie.path.to(device), forced
