"""Several processes as one: started by torchrun, weights sharded by FSDP2, gradients those of one process.

Without torchrun there is one rank and nothing here communicates.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor


@contextmanager
def process_group() -> Iterator[None]:
    """Join the other processes that torchrun started, and leave them in order. Alone it does nothing."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
        # A process that leaves while another still talks to it would take that one down.
        dist.barrier()
    finally:
        dist.destroy_process_group()


def rank() -> int:
    """This process's number."""
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_first() -> bool:
    """Whether this process writes files and talks to the user."""
    return rank() == 0


def wait_for_all() -> None:
    """Go on when all ranks have come here."""
    if dist.is_initialized():
        dist.barrier()


def gathered(value: Any) -> list[Any]:
    """One value of every rank, in order."""
    if not dist.is_initialized():
        return [value]
    found: list[Any] = [None] * world()
    dist.all_gather_object(found, value)
    return found


def sharded(module: nn.Module) -> None:
    """Spread the weights over the ranks, layer by layer. The root's stay whole from forward to backward."""
    if not dist.is_initialized():
        return
    from torch.distributed.fsdp import fully_shard

    for layer in _layers(module):
        fully_shard(layer)
    fully_shard(module)


def _layers(module: nn.Module) -> list[nn.Module]:
    """The blocks of a transformer: the longest list of modules in it."""
    lists = [list(each) for each in module.modules() if isinstance(each, nn.ModuleList)]
    return max(lists, key=len, default=[])


def full(tensor: Tensor) -> Tensor:
    """A whole tensor on the CPU; all ranks have to ask for it."""
    whole: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole.detach().cpu()


def full_state(module: nn.Module) -> dict[str, Tensor]:
    """All weights by name, whole. What is tied stays one tensor."""
    whole: dict[int, Tensor] = {}
    held = module.state_dict(keep_vars=True)
    for value in held.values():
        if id(value) not in whole:
            whole[id(value)] = full(value)
    return {name: whole[id(value)] for name, value in held.items()}


def fill(target: Tensor, value: Tensor) -> None:
    """Write a whole tensor into one that may be sharded."""
    with torch.no_grad():
        if isinstance(target, DTensor):
            target.copy_(distribute_tensor(value.to(target.device), target.device_mesh, target.placements))
        else:
            target.copy_(value)
