"""The loop: soft targets, several self-conditioned steps, one schedule; stops and goes on at any step.

Source: the training-time test of EAGLE-3 (Li et al., 2025); the overlap term is the acceptance of speculative sampling
itself (Leviathan et al., 2023), maximised directly.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rheo.models.drafters.eagle3_head import Eagle3Head
from rheo.models.smollm2 import ModelError
from rheo.training.batches import epoch, read
from rheo.training.unrolled import Texts, unrolled

_OUTPUT = 0.1  # rate of the output matrix, relative to the rest
_WARM_UP = 40  # optimiser steps
_DECAY = 0.8  # weight of each step relative to the one before


@dataclass(frozen=True)
class FitPlan:
    """How a head is fitted. batch: tokens an optimiser step. steps: self-conditioned ones. rate: the highest.

    overlap: weight of 1 - sum(min(p, q)) beside the cross-entropy. share: of the positions, drawn anew for every step
    but the first, on which the loss is taken. opening: tokens at the start of every text that teach nothing.
    """

    seed: int
    epochs: int
    batch: int
    steps: int
    rate: float
    weight_decay: float
    overlap: float
    share: float
    opening: int


@dataclass(frozen=True)
class Teacher:
    """What of the target a head learns from: embeddings [V, d], and the output matrix's rows for its vocabulary."""

    embeddings: Tensor
    output: Tensor


@dataclass(frozen=True)
class Progress:
    """done of total batches; means over the last ones of the loss, and by step of the overlap with what was learned."""

    done: int
    total: int
    loss: float
    overlaps: tuple[float, ...]


def fit(
    head: Eagle3Head,
    teacher: Teacher,
    paths: list[Path],
    plan: FitPlan,
    checkpoint: Path,
    half: bool,
    report: Callable[[Progress], None],
    save_every: int = 100,
) -> float:
    """Train the head in place on the shards, going on from the checkpoint if there is one; the seconds of all runs.

    half: whether products are taken in bfloat16. An interrupt ends it behind a step, with the checkpoint saved.
    ModelError for a checkpoint of another plan, other shards, or that cannot be read.
    """
    device = head.fc.weight.device
    optimiser = torch.optim.AdamW(_groups(head, plan.weight_decay), lr=plan.rate, betas=(0.9, 0.95))
    batches = [batch for number in range(plan.epochs) for batch in epoch(paths, plan.batch, plan.seed, number)]
    identity = {**asdict(plan), "shards": [path.name for path in paths]}
    done, before = _resume(checkpoint, head, optimiser, identity)
    started = time.monotonic()

    def spent() -> float:
        return before + time.monotonic() - started

    weights = _DECAY ** torch.arange(plan.steps, device=device)
    generator = torch.Generator(device)
    shown: list[tuple[float, ...]] = []
    try:
        for texts in read(batches[done:], plan.opening):
            for group in optimiser.param_groups:
                group["lr"] = plan.rate * group["share"] * _schedule(done, len(batches))
            optimiser.zero_grad(set_to_none=True)
            generator.manual_seed(
                plan.seed * 1_000_003 + done
            )  # of every step its own, so that a resumed run is the same
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                losses, overlaps = losses_of(head, teacher, _moved(texts, device), plan, generator)
            loss = torch.stack(losses) @ weights / weights.sum()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            optimiser.step()
            done += 1
            shown = [*shown[-49:], (float(loss.detach()), *(float(each) for each in overlaps))]
            means = [math.fsum(column) / len(shown) for column in zip(*shown, strict=True)]
            report(Progress(done, len(batches), means[0], tuple(means[1:])))
            if done % save_every == 0:
                _save(checkpoint, head, optimiser, identity, done, spent())
    finally:
        _save(checkpoint, head, optimiser, identity, done, spent())
    return spent()


def losses_of(
    head: Eagle3Head, teacher: Teacher, texts: Texts, plan: FitPlan, generator: torch.Generator
) -> tuple[list[Tensor], list[Tensor]]:
    """By step: the mean loss, and the mean overlap with p on the head's vocabulary, at the positions learned."""
    losses, overlaps = [], []
    for state, offset in unrolled(head, teacher.embeddings, texts, plan.steps):
        chosen = texts.learned[:, offset:]
        if offset > 1:
            drawn = torch.rand(chosen.shape, generator=generator, device=chosen.device)
            chosen = chosen & (drawn < plan.share)
        q_logits = head.lm_head(head.norm(state[chosen]))
        with torch.no_grad():
            p_logits = texts.states[:, offset:][chosen].to(teacher.output.dtype) @ teacher.output.T
            p = p_logits.float().softmax(-1)
        log_q = q_logits.float().log_softmax(-1)
        overlap = torch.minimum(p, log_q.exp()).sum(-1).mean()
        cross_entropy = -(p * log_q).sum(-1).mean()
        losses.append(cross_entropy + plan.overlap * (1 - overlap))
        overlaps.append(overlap.detach())
    return losses, overlaps


def _schedule(done: int, total: int) -> float:
    """Share of the highest rate: a short rise, then half a cosine down to a fiftieth."""
    if done < _WARM_UP:
        return (done + 1) / _WARM_UP
    return 0.02 + 0.49 * (1 + math.cos(math.pi * (done - _WARM_UP) / max(1, total - _WARM_UP)))


def _groups(head: Eagle3Head, decay: float) -> list[dict[str, Any]]:
    """Weight decay on matrices alone, and not on the output matrix: it is the target's own, and moves slowly."""
    learned = {name: weight for name, weight in head.named_parameters() if weight.requires_grad}
    output = learned.pop("lm_head.weight")
    matrices = [weight for weight in learned.values() if weight.ndim > 1]
    others = [weight for weight in learned.values() if weight.ndim < 2]
    return [
        {"params": matrices, "weight_decay": decay, "share": 1.0},
        {"params": others, "weight_decay": 0.0, "share": 1.0},
        {"params": [output], "weight_decay": 0.0, "share": _OUTPUT},
    ]


def _moved(texts: Texts, device: torch.device) -> Texts:
    return Texts(
        tokens=texts.tokens.to(device),
        learned=texts.learned.to(device),
        features=texts.features.to(device).float(),
        states=texts.states.to(device),
    )


def _save(
    path: Path,
    head: Eagle3Head,
    optimiser: torch.optim.Optimizer,
    identity: dict[str, Any],
    done: int,
    seconds: float,
) -> None:
    scratch = path.with_suffix(".part")
    states = {"head": head.state_dict(), "optimiser": optimiser.state_dict()}
    torch.save({**states, "plan": identity, "done": done, "seconds": seconds}, scratch)
    os.replace(scratch, path)


def _resume(
    path: Path, head: Eagle3Head, optimiser: torch.optim.Optimizer, identity: dict[str, Any]
) -> tuple[int, float]:
    """Batches done and seconds spent before."""
    if not path.is_file():
        return 0, 0.0
    try:
        saved = torch.load(path, map_location=head.fc.weight.device, weights_only=True)
    except Exception as error:  # whatever a damaged file makes of it
        raise ModelError(f"{path}: damaged; remove it to start the fit anew") from error
    if saved["plan"] != identity:
        raise ModelError(f"{path}: of another plan or other text; remove it to start the fit anew")
    head.load_state_dict(saved["head"])
    optimiser.load_state_dict(saved["optimiser"])
    return int(saved["done"]), float(saved["seconds"])
