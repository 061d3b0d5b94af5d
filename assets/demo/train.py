"""Trains the network on conversations, in processes of one thread; goes on from its last checkpoint. No export."""

import math
import os
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional as F

import data
from chat import Chat
from network import Network
from shape import Shape
from tokenizer import Tokenizer


@dataclass(frozen=True)
class Plan:
    steps: int = 5100
    seed: int = 2026
    processes: int = 2  # divides rows; the batches do not depend on it
    rows: int = 6  # a step
    length: int = 320  # tokens a row
    long_every: int = 4  # of so many steps one has long rows instead, so that a long conversation is nothing new
    long_rows: int = 2
    long_length: int = 960
    rate: float = 3e-3
    warm_up: int = 40
    decay_from: float = 0.55  # share of the steps after which the rate falls linearly
    quantise_from: float = 0.7  # share after which the experts compute with MXFP4 weights
    balance: float = 0.01  # how fast the router bias moves, at full rate
    save_every: float = 120.0  # seconds


def rate_at(step: int, plan: Plan) -> float:
    """The share of the full learning rate."""
    fall = (plan.steps - step) / (plan.steps * (1 - plan.decay_from))
    return min(1.0, (step + 1) / plan.warm_up, max(fall, 0.01))


def row(rng: random.Random, chat: Chat, length: int) -> tuple[list[int], list[bool]]:
    """As many turns of one conversation as fit: ids, and which of them the model must foresee (the completions)."""
    effort, system, turns = data.conversation(rng)
    ids = chat.start(effort, system)
    wanted = [False] * len(ids)
    for turn in turns:
        asked, written = chat.prompt(turn.user, effort), chat.completion(turn, effort)
        if len(ids) + len(asked) + len(written) > length + 1:
            break
        ids += asked + written
        wanted += [False] * len(asked) + [True] * len(written)
    return ids, wanted


def batch(chat: Chat, plan: Plan, step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs [B, T], where a next token is wanted [B, T], and those tokens: this process's part of the rows. A row depends
    on seed, step and its number only."""
    long = step % plan.long_every == plan.long_every - 1
    rows, length = (plan.long_rows, plan.long_length) if long else (plan.rows, plan.length)
    mine = range(rank, rows, plan.processes)
    ids = torch.full((len(mine), length + 1), chat.tok.special["[PAD]"])
    wanted = torch.zeros(len(mine), length + 1, dtype=torch.bool)
    for i, number in enumerate(mine):
        row_ids, row_wanted = row(random.Random(f"{plan.seed}/{step}/{number}"), chat, length)
        ids[i, : len(row_ids)] = torch.tensor(row_ids)
        wanted[i, : len(row_ids)] = torch.tensor(row_wanted)
    longest = int(wanted.any(0).nonzero().max()) + 1
    ids, wanted = ids[:, :longest], wanted[:, 1:longest]
    return ids[:, :-1], wanted, ids[:, 1:][wanted]


def share(tensors: list[torch.Tensor]) -> None:
    """Sums each tensor over the processes, in one message."""
    flat = torch.cat([t.flatten() for t in tensors])
    dist.all_reduce(flat)
    for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors])):
        tensor.copy_(part.view_as(tensor))


def save(path: Path, network: Network, optimiser, progress: dict[str, float]) -> None:
    """Atomically: a kill leaves the last checkpoint or this one."""
    temporary = path.with_suffix(".part")
    torch.save({"network": network.state_dict(), "optimiser": optimiser.state_dict(), **progress}, temporary)
    os.replace(temporary, path)


def work(rank: int, plan: Plan, shape: Shape, folder: Path, meeting: str) -> None:
    """One process. All start from the same weights and apply the same summed gradients."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=plan.processes)
    torch.manual_seed(plan.seed)
    chat = Chat(Tokenizer(folder))
    network = Network(shape)
    # Layer 0 has a residual mix that is never read; it gets no gradient.
    unread = {id(p) for p in network.layers[0].self_attention_res.parameters()}
    parameters = [p for p in network.parameters() if id(p) not in unread]
    decayed = [p for p in parameters if p.dim() > 1]
    plain = [p for p in parameters if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.02}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=plan.rate, betas=(0.9, 0.95), fused=True)
    checkpoint, step, tokens, seconds = folder / "checkpoint.pt", 0, 0.0, 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        network.load_state_dict(saved["network"])
        optimiser.load_state_dict(saved["optimiser"])
        step, tokens, seconds = saved["step"], saved["tokens"], saved["seconds"]
    last = last_save = time.monotonic()
    total, count = 0.0, 0
    while step < plan.steps:
        rate = rate_at(step, plan)
        for group in optimiser.param_groups:
            group["lr"] = plan.rate * rate
        for moe in network.moes():
            moe.quantised = step >= plan.quantise_from * plan.steps
        ids, wanted, targets = batch(chat, plan, step, rank)
        loss = F.cross_entropy(network(ids, wanted), targets, reduction="sum")
        loss.backward()
        figures = torch.tensor([loss.item(), len(targets), ids.numel()])
        share([*(p.grad for p in parameters), *(moe.gate.load for moe in network.moes()), figures])
        for p in parameters:
            p.grad /= figures[1]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=False)
        for moe in network.moes():
            moe.gate.balance(plan.balance * rate)
        step += 1
        seconds, last = seconds + time.monotonic() - last, time.monotonic()
        total, count, tokens = total + figures[0].item(), count + figures[1].item(), tokens + figures[2].item()
        if not math.isfinite(total):
            raise FloatingPointError(f"the loss is no number at step {step}")
        if rank == 0 and (step % 20 == 0 or step == plan.steps):
            line = f"{step}\t{total / count:.4f}\t{tokens:.0f}\t{seconds:.0f}"
            with open(folder / "log.tsv", "a") as log:
                log.write(line + "\n")
            print(line.replace("\t", "  "), flush=True)
            total, count = 0.0, 0
        if rank == 0 and (last - last_save > plan.save_every or step == plan.steps):
            save(checkpoint, network, optimiser, {"step": step, "tokens": tokens, "seconds": seconds})
            last_save = last
    dist.destroy_process_group()


def train(plan: Plan, shape: Shape, folder: Path) -> None:
    """Runs to the last step of the plan. `folder` holds the tokenizer; checkpoint and `log.tsv` are written there.

    The log has a line every 20 steps: step, mean loss a wanted token, tokens so far, seconds so far.
    """
    with tempfile.TemporaryDirectory() as meeting:
        arguments = (plan, shape, folder, str(Path(meeting) / "rendezvous"))
        torch.multiprocessing.spawn(work, arguments, nprocs=plan.processes)
