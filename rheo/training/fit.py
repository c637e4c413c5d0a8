"""The loop: soft targets, several self-conditioned steps, one schedule; stops and goes on at any step.

Source: the training-time test of EAGLE-3 (Li et al., 2025).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from rheo.models.drafters.eagle3_head import Eagle3Head
from rheo.models.smollm2 import ModelError
from rheo.training.batches import epoch, read
from rheo.training.loss import rejection_loss
from rheo.training.unrolled import Texts, unrolled

_OUTPUT = 0.05  # rate of the output matrix, relative to that of the other matrices
_NORMS = 3.0  # and of the norms
_WARM_UP = 20  # optimiser steps
_DECAY = 0.8  # weight of each step relative to the one before


@dataclass(frozen=True)
class FitPlan:
    """How a head is fitted. batch: tokens an optimiser step. steps: self-conditioned ones. rate: the highest.

    alone: share of the fit that learns nothing but the first step, which is cheap. overlap: weight of 1 - sum(min(p,
    q)) beside the cross-entropy. share: of the positions, drawn anew for every step but the first, on which the loss is
    taken. opening: tokens at the start of every text that teach nothing.
    """

    seed: int
    epochs: int
    batch: int
    steps: int
    alone: float
    rate: float
    weight_decay: float
    overlap: float
    share: float
    opening: int


@dataclass(frozen=True)
class Teacher:
    """What of the target a head learns from: embeddings [V, d], the output matrix's rows for its vocabulary.

    scale: [3 d], of the features. While a head learns they are divided by it, since no rate suits both `fc` and a layer
    where features are a hundred times as large as weights are; in the end it is a part of `fc`.
    """

    embeddings: Tensor
    output: Tensor
    scale: Tensor


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
    ModelError for a checkpoint of another plan, other shards, another head to begin with, or that cannot be read.
    """
    device = head.fc.weight.device
    identity = {**asdict(plan), "shards": [path.name for path in paths], "start": _digest(head)}
    with torch.no_grad():
        head.fc.weight *= teacher.scale
    optimisers = _optimisers(head, plan)
    batches = [batch for number in range(plan.epochs) for batch in epoch(paths, plan.batch, plan.seed, number)]
    done, before = _resume(checkpoint, head, optimisers, identity)
    started = time.monotonic()

    def spent() -> float:
        return before + time.monotonic() - started

    generator = torch.Generator(device)
    shown: list[tuple[float, ...]] = []
    try:
        for texts in read(batches[done:], plan.opening):
            for group in [group for optimiser in optimisers for group in optimiser.param_groups]:
                group["lr"] = plan.rate * group["share"] * _schedule(done, len(batches))
            head.zero_grad(set_to_none=True)
            steps = plan.steps if done >= plan.alone * len(batches) else 1
            # Of every step its own, so that a resumed run is the same.
            generator.manual_seed(plan.seed * 1_000_003 + done)
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                losses, overlaps = losses_of(head, teacher, _moved(texts, teacher.scale), plan, steps, half, generator)
            weights = _DECAY ** torch.arange(steps, device=device)
            loss = torch.stack(losses) @ weights / weights.sum()
            loss.backward()  # type: ignore[no-untyped-call]
            for optimiser in optimisers:
                optimiser.step()
            done += 1
            figures = float(loss.detach()), *(float(each) for each in overlaps)
            shown = [*(past for past in shown[-49:] if len(past) == len(figures)), figures]
            means = [math.fsum(column) / len(shown) for column in zip(*shown, strict=True)]
            report(Progress(done, len(batches), means[0], tuple(means[1:])))
            if done % save_every == 0:
                _save(checkpoint, head, optimisers, identity, done, spent())
    finally:
        _save(checkpoint, head, optimisers, identity, done, spent())
    with torch.no_grad():
        head.fc.weight /= teacher.scale
    return spent()


def losses_of(
    head: Eagle3Head, teacher: Teacher, texts: Texts, plan: FitPlan, steps: int, half: bool, generator: torch.Generator
) -> tuple[list[Tensor], list[Tensor]]:
    """By step: the mean loss, and the mean overlap with p on the head's vocabulary, at the positions learned."""
    losses, overlaps = [], []
    for state, offset in unrolled(head, teacher.embeddings, texts, steps):
        chosen = texts.learned[:, offset:]
        if offset > 1:
            drawn = torch.rand(chosen.shape, generator=generator, device=chosen.device)
            chosen = chosen & (drawn < plan.share)
        states = head.norm(state[chosen])
        p_states = texts.states[:, offset:][chosen]
        loss, overlap = rejection_loss(states, head.lm_head.weight, p_states, teacher.output, plan.overlap, half)
        losses.append(loss)
        overlaps.append(overlap)
    return losses, overlaps


def _schedule(done: int, total: int) -> float:
    """Share of the highest rate: a short rise, then half a cosine down to a fiftieth."""
    if done < _WARM_UP:
        return (done + 1) / _WARM_UP
    return 0.02 + 0.49 * (1 + math.cos(math.pi * (done - _WARM_UP) / max(1, total - _WARM_UP)))


def _optimisers(head: Eagle3Head, plan: FitPlan) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
    """Muon for the matrices that are learned from nothing; Adam for norms, and slowly for the output matrix, which was
    the target's own. Each group says its share of the rate."""
    learned = {name: weight for name, weight in head.named_parameters() if weight.requires_grad}
    output = learned.pop("lm_head.weight")
    matrices = [weight for weight in learned.values() if weight.ndim > 1]
    norms = [weight for weight in learned.values() if weight.ndim < 2]
    muon = torch.optim.Muon(
        [{"params": matrices, "share": 1.0}],
        lr=plan.rate,
        weight_decay=plan.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    slow = [{"params": norms, "share": _NORMS}, {"params": [output], "share": _OUTPUT}]
    return muon, torch.optim.AdamW(slow, lr=plan.rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True)


def _moved(texts: Texts, scale: Tensor) -> Texts:
    """The texts where the scale is, their features divided by it."""
    device = scale.device
    return Texts(
        tokens=texts.tokens.to(device),
        learned=texts.learned.to(device),
        features=texts.features.to(device).float() / scale,
        states=texts.states.to(device),
    )


def _digest(head: Eagle3Head) -> int:
    """Tells heads apart by their values."""
    return crc32(b"".join(weight.detach().cpu().numpy().tobytes() for weight in head.state_dict().values()))


def _save(
    path: Path,
    head: Eagle3Head,
    optimisers: Sequence[torch.optim.Optimizer],
    identity: dict[str, Any],
    done: int,
    seconds: float,
) -> None:
    scratch = path.with_suffix(".part")
    states = {"head": head.state_dict(), "optimisers": [each.state_dict() for each in optimisers]}
    torch.save({**states, "plan": identity, "done": done, "seconds": seconds}, scratch)
    os.replace(scratch, path)


def require_same_plan(path: Path, plan: FitPlan, start: Eagle3Head | None) -> None:
    """ModelError for a checkpoint that `fit` would refuse whatever the text, so that none is sampled for it.

    start: the head that the fit begins with, None for a new one, which hangs on the text.
    """
    if path.is_file():
        known = asdict(plan) if start is None else {**asdict(plan), "start": _digest(start)}
        if not known.items() <= _loaded(path, torch.device("cpu"))["plan"].items():
            raise _of_another(path)


def _loaded(path: Path, device: torch.device) -> dict[str, Any]:
    try:
        saved: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
        saved["plan"].items()
    except Exception as error:  # whatever a damaged file makes of it
        raise ModelError(f"{path}: damaged; remove it to start the fit anew") from error
    return saved


def _of_another(path: Path) -> ModelError:
    return ModelError(f"{path}: of another plan, head or text; move it away to start the fit anew")


def _resume(
    path: Path, head: Eagle3Head, optimisers: Sequence[torch.optim.Optimizer], identity: dict[str, Any]
) -> tuple[int, float]:
    """Batches done and seconds spent before."""
    if not path.is_file():
        return 0, 0.0
    saved = _loaded(path, head.fc.weight.device)
    if saved["plan"] != identity:
        raise _of_another(path)
    head.load_state_dict(saved["head"])
    for optimiser, state in zip(optimisers, saved["optimisers"], strict=True):
        optimiser.load_state_dict(state)
    return int(saved["done"]), float(saved["seconds"])
