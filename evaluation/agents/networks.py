"""Policy networks for MaskablePPO.

`SetPolicy` treats the resources as a set: reorder them and the logits reorder with them, and a network
trained on 12 resources runs on 30. The flat network is sb3-contrib's own `MlpPolicy`.

Both are evaluated through `policy_inputs` (once per batch of observations) and `policy_outputs` (once per
minibatch), which skip what stable-baselines3 does around a network: flattening, casting, a distribution.

Shapes: S states, N slots, F features of a resource, G features of the world, A = N * n_ops + 1 actions,
H the width of the network.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch as th
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import nn
from torch.nn import functional as F

from cloudrl.actions import N_OPS
from evaluation.agents.set_ops import live_pool, neighbour_mean

Inputs = tuple[th.Tensor, ...]


class SetNetwork(nn.Module):
    """Encoder per resource, pooled context, pointer head.

    e_i = relu(E2 relu(E1 x_i) + D mean_{j in deps(i)} relu(E1 x_j))
    p   = [mean_i e_i, max_i e_i, world]                 over live resources
    c   = C2 relu(C1 p)
    logit(op, i) = O relu(P e_i + c)_op,   logit(NOOP) = n . relu(c)
    latent value = relu(V2 relu(V1 p))
    """

    fed_columns: th.Tensor
    dependency_columns: th.Tensor

    def __init__(
        self,
        resource_features: int,
        world_features: int,
        n_ops: int,
        present_column: int,
        dependency_columns: tuple[int, ...],
        width: int,
        use_dependencies: bool,
    ) -> None:
        super().__init__()
        columns = [c for c in range(resource_features) if c not in dependency_columns]
        self.resource_features, self.world_features, self.n_ops = resource_features, world_features, n_ops
        self.present_column = present_column
        self.use_dependencies = use_dependencies
        self.register_buffer("fed_columns", th.tensor(columns), persistent=False)
        self.register_buffer("dependency_columns", th.tensor(dependency_columns), persistent=False)
        self.latent_dim_pi, self.latent_dim_vf = width, 2 * width

        pooled = 2 * width + world_features
        self.encode_in = nn.Linear(len(columns), width)
        self.encode_out = nn.Linear(width, width)
        if use_dependencies:
            self.encode_neighbours = nn.Linear(width, width, bias=False)
        self.context_in = nn.Linear(pooled, 2 * width)
        self.context_out = nn.Linear(2 * width, width)
        self.pointer = nn.Linear(width, width, bias=False)  # the context carries the bias
        self.ops = nn.Linear(width, n_ops)
        self.noop = nn.Linear(width, 1)
        self.value_in = nn.Linear(pooled, 2 * width)
        self.value_out = nn.Linear(2 * width, 2 * width)

    def split(self, obs: th.Tensor) -> Inputs:
        """(S, N*F + G) -> features (S, N, F'), live (S, N), world (S, G) [, neighbours (S, N, K)]."""
        n_states, length = obs.shape
        n_slots, rest = divmod(length - self.world_features, self.resource_features)
        if rest or n_slots < 1:
            raise ValueError(
                f"an observation of {length} numbers is not a whole number of resources of "
                f"{self.resource_features} and a world of {self.world_features}"
            )
        table = obs[:, : n_slots * self.resource_features].view(n_states, n_slots, self.resource_features)
        parts = (
            table.index_select(2, self.fed_columns),
            table[..., self.present_column].contiguous(),
            obs[:, n_slots * self.resource_features :].contiguous(),
        )
        if not self.use_dependencies:
            return parts
        slots = table.index_select(2, self.dependency_columns).mul(n_slots).round_().sub_(1)
        slots = slots.clamp_(-1, n_slots - 1)  # whatever an observation holds, it is never read out of bounds
        return (*parts, slots.to(th.int32))

    def trunk(self, parts: Inputs) -> tuple[th.Tensor, th.Tensor]:
        """Encodings of the resources (S*N, H) and pooled features (S, 2H+G)."""
        features, live, world = parts[:3]
        n_states, n_slots, n_features = features.shape
        first = F.linear(features.view(-1, n_features), self.encode_in.weight, self.encode_in.bias).relu_()
        encoded = F.linear(first, self.encode_out.weight, self.encode_out.bias)
        if self.use_dependencies:
            average = neighbour_mean(first.view(n_states, n_slots, -1), parts[3])
            encoded = encoded.addmm(average.view(encoded.shape), self.encode_neighbours.weight.t())
        encoded = encoded.relu_()
        mean, top = live_pool(encoded.view(n_states, n_slots, -1), live)
        return encoded, th.cat([mean, top, world], 1)

    def actor(self, encoded: th.Tensor, pooled: th.Tensor) -> th.Tensor:
        """Logits (S, A)."""
        n_states, width = len(pooled), encoded.shape[1]
        hidden = F.linear(pooled, self.context_in.weight, self.context_in.bias).relu_()
        context = F.linear(hidden, self.context_out.weight, self.context_out.bias)
        # Not in place: torch copies a whole gradient for each write into a view.
        pointed = F.linear(encoded, self.pointer.weight).view(n_states, -1, width) + context[:, None]
        ops = F.linear(pointed.relu_().view(-1, width), self.ops.weight, self.ops.bias).view(n_states, -1)
        noop = F.linear(context.relu(), self.noop.weight, self.noop.bias)
        return th.cat([ops, noop], 1)

    def critic(self, pooled: th.Tensor) -> th.Tensor:
        """Latent value (S, 2H)."""
        hidden = F.linear(pooled, self.value_in.weight, self.value_in.bias).relu_()
        return F.linear(hidden, self.value_out.weight, self.value_out.bias).relu_()

    def from_parts(self, parts: Inputs) -> tuple[th.Tensor, th.Tensor]:
        """Logits (S, A) and latent values (S, 2H) of what `split` returned."""
        encoded, pooled = self.trunk(parts)
        return self.actor(encoded, pooled), self.critic(pooled)

    # The three names below are what stable-baselines3 calls on a policy's `mlp_extractor`.
    def forward(self, obs: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        return self.from_parts(self.split(obs))

    def forward_actor(self, obs: th.Tensor) -> th.Tensor:
        return self.actor(*self.trunk(self.split(obs)))

    def forward_critic(self, obs: th.Tensor) -> th.Tensor:
        return self.critic(self.trunk(self.split(obs))[1])


class SetPolicy(MaskableActorCriticPolicy):
    """Permutation-equivariant actor-critic over the resources of a world.

    The observation is flat: N rows of `resource_features` numbers, then `world_features` numbers.
    Action `slot * n_ops + op`; NOOP is the last one.

    :param resource_features: F, numbers per resource
    :param world_features: G, numbers about the world
    :param n_ops: operations per resource
    :param present_column: the resource feature that is 1 for a live slot and 0 for padding
    :param dependency_columns: the features that hold (slot + 1) / N of a dependency, 0 for none; never fed
        to a linear layer, because a slot's number means nothing
    :param width: H
    :param use_dependencies: one round of messages from the dependencies
    :param noop_bias: initial logit of NOOP
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Discrete,
        lr_schedule: Schedule,
        *,
        resource_features: int,
        world_features: int,
        n_ops: int = N_OPS,
        present_column: int = 0,
        dependency_columns: Iterable[int] = (),
        width: int = 32,
        use_dependencies: bool = False,
        noop_bias: float = 0.0,
        **kwargs: Any,
    ) -> None:
        dependency_columns = tuple(int(c) for c in dependency_columns)
        if use_dependencies and not dependency_columns:
            raise ValueError("use_dependencies needs dependency_columns")
        if not 0 <= present_column < resource_features or present_column in dependency_columns:
            raise ValueError(f"present_column {present_column} is not a feature of a resource")
        self.network_arguments: dict[str, Any] = {
            "resource_features": resource_features,
            "world_features": world_features,
            "n_ops": n_ops,
            "present_column": present_column,
            "dependency_columns": dependency_columns,
            "width": width,
            "use_dependencies": use_dependencies,
        }
        self.noop_bias = noop_bias
        n_slots, rest = divmod(int(action_space.n) - 1, n_ops)
        length = math.prod(observation_space.shape or (0,))
        if rest or length != n_slots * resource_features + world_features:
            raise ValueError(
                f"{length} observed numbers and {action_space.n} actions do not fit resources of "
                f"{resource_features} numbers and {n_ops} operations, and a world of {world_features}"
            )
        super().__init__(observation_space, action_space, lr_schedule, **kwargs)

    def _build(self, lr_schedule: Schedule) -> None:
        network = SetNetwork(**self.network_arguments)
        self.mlp_extractor = network  # type: ignore[assignment]
        self.action_net = nn.Identity()  # the pointer head's output already is the logits
        self.value_net = nn.Linear(network.latent_dim_vf, 1)
        for module in network.modules():
            self.init_weights(module, gain=math.sqrt(2))
        for head in (network.ops, network.noop):
            self.init_weights(head, gain=0.01)
        self.init_weights(self.value_net, gain=1.0)
        nn.init.constant_(network.noop.bias, self.noop_bias)
        self.optimizer = self.optimizer_class(
            self.parameters(),
            lr=lr_schedule(1),
            **self.optimizer_kwargs,  # type: ignore[call-arg]
        )

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {
            **super()._get_constructor_parameters(),
            **self.network_arguments,
            "noop_bias": self.noop_bias,
        }


def _is_plain_mlp(policy: MaskableActorCriticPolicy) -> bool:
    return (
        type(policy.features_extractor) is FlattenExtractor
        and policy.share_features_extractor
        and isinstance(policy.observation_space, spaces.Box)
    )


def _run(layers: Iterable[nn.Module], x: th.Tensor) -> th.Tensor:
    for layer in layers:
        x = F.linear(x, layer.weight, layer.bias) if type(layer) is nn.Linear else layer(x)
    return x


def policy_inputs(policy: MaskableActorCriticPolicy, obs: th.Tensor) -> Inputs:
    """What the network reads, each with the states first: computed once, then picked by minibatch.

    :param obs: (S, D) float32, on the policy's device
    """
    if isinstance(policy, SetPolicy):
        network = policy.mlp_extractor
        assert isinstance(network, SetNetwork)
        return network.split(obs)
    return (obs,)


def policy_outputs(policy: MaskableActorCriticPolicy, inputs: Inputs) -> tuple[th.Tensor, th.Tensor]:
    """Logits (S, A) and values (S,) from what `policy_inputs` returned."""
    if isinstance(policy, SetPolicy):
        network = policy.mlp_extractor
        assert isinstance(network, SetNetwork)
        logits, latent = network.from_parts(inputs)
        return logits, F.linear(latent, policy.value_net.weight, policy.value_net.bias).view(-1)
    if _is_plain_mlp(policy):
        (obs,) = inputs
        logits = policy.action_net(_run(policy.mlp_extractor.policy_net, obs))
        return logits, policy.value_net(_run(policy.mlp_extractor.value_net, obs)).view(-1)
    if not policy.share_features_extractor:
        pi_features, vf_features = policy.extract_features(inputs[0])
        latent_pi = policy.mlp_extractor.forward_actor(pi_features)
        latent_vf = policy.mlp_extractor.forward_critic(vf_features)
    else:
        latent_pi, latent_vf = policy.mlp_extractor(policy.extract_features(inputs[0]))
    return policy.action_net(latent_pi), policy.value_net(latent_vf).view(-1)


def action_logits_and_values(policy: MaskableActorCriticPolicy, obs: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
    """Unmasked logits (S, A) and values (S,) of observations (S, D), for SetPolicy and MlpPolicy alike."""
    return policy_outputs(policy, policy_inputs(policy, obs))
