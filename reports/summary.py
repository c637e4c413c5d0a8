"""The verdict in one sentence with its error rates, and the run in a few facts."""

from __future__ import annotations

from typing import Any

from reports.blocks import counted, distinct, plain

Json = dict[str, Any]


def sentence(run: Json) -> str:
    """What the verdict means, with alpha, beta and X where anything was sampled."""
    verdict = run["verdict"]
    if run["kind"] == "audit":
        return _audit(run)
    if verdict == "lossless":
        said = _lossless(run)
    elif verdict == "lossy":
        said = _lossy(run)
    else:
        said = _OTHERS.get(verdict, f"this run ended as “{verdict}”")
    claimed = rates(run)
    if claimed:
        tv, alpha, beta = map(plain, claimed)
        if verdict in ("lossless", "lossy"):
            said += f" (by sampling, a right sampler is called lossy with probability at most {alpha}, a deviation of "
            said += f"total variation {tv} or more is missed with at most {beta})"
        else:
            said += (
                f" (asked for, by sampling: to find a total variation of {tv} or more with false-alarm rate {alpha} "
            )
            said += f"and miss rate {beta})"
    return f"{said[0].upper()}{said[1:]}."


_OTHERS = {
    "inconclusive": "neither lossless nor lossy is shown: something was out of reach, or too little was sampled",
    "interrupted": "it was stopped before its end",
    "unexpected": "every law computed is the target's, but something else came out than the case or the reference says",
    "control_passed": "a sampler that is wrong on purpose was not found: nothing else this run says can be relied on",
    "bad_input": "some of the input could not be used, so nothing is said about it",
}


def rates(run: Json) -> tuple[float, float, float] | None:
    """The largest X, alpha and beta claimed of any sampler; None where nothing is claimed."""
    claims = [subject["claims"] for subject in run.get("subjects", []) if "claims" in subject]
    if not claims:
        return None
    return max(c["tv"] for c in claims), max(c["alpha"] for c in claims), max(c["beta"] for c in claims)


def _lossless(run: Json) -> str:
    said = []
    if run.get("checks"):
        said.append(f"every output law computed on {_cases(run['checks'])} is the target's")
    if run.get("subjects"):
        said.append(f"sampling found no deviation in {counted(len(run['subjects']), 'sampler')}")
    else:
        said.append("nothing was sampled, so there is no error rate to state")
    return "; ".join(said)


def _lossy(run: Json) -> str:
    said = []
    failed = [check for check in run.get("checks", []) if check["status"] == "lossy"]
    if failed:
        said.append(f"{counted(len(failed), 'check')} failed on {_cases(failed)}, computed and not sampled")
    lossy = [f"“{subject['subject']}”" for subject in run.get("subjects", []) if subject["verdict"] == "lossy"]
    if lossy:
        said.append(f"the output of {', '.join(lossy)} departs from the target's distribution")
    return "; ".join(said) or "something that was tested departs from the target"


def _cases(checks: list[Json]) -> str:
    return counted(len(distinct(check["case"] for check in checks)), "case")


def _audit(run: Json) -> str:
    tokens = counted(run.get("tokens", 0), "token")
    alpha = f" (false alarms over a lifetime of looking: at most {plain(run['alpha'])})" if "alpha" in run else ""
    if run["verdict"] == "lossy":
        return f"A trace of {tokens} departs from the target's distribution{alpha}."
    if run["verdict"] == "lossless":
        return f"A trace of {tokens} shows no departure from the target's distribution{alpha}."
    said = _OTHERS.get(run["verdict"], f"this run ended as “{run['verdict']}”")
    return f"{said[0].upper()}{said[1:]}; {tokens} counted{alpha}."


def facts(run: Json) -> list[tuple[str, str]]:
    """The run in numbers: what, how many."""
    checks, controls, mutants = (run.get(key, []) for key in ("checks", "controls", "mutants"))
    subjects = run.get("subjects", [])
    found = []
    if checks:
        found.append(("cases", plain(len(distinct(check["case"] for check in checks)))))
        passed = sum(check["status"] == "lossless" for check in checks)
        found.append(("checks passed", f"{plain(passed)} of {plain(len(checks))}"))
    if controls:
        caught = sum(control["status"] == "lossy" for control in controls)
        found.append(("controls found", f"{caught} of {len(controls)}"))
    if subjects:
        found.append(("samplers tested", plain(len(subjects))))
        found.append(("sequences", plain(sum(subject.get("sequences", 0) for subject in subjects))))
    if mutants:
        caught = sum(any(tier["caught"] for tier in mutant["tiers"].values()) for mutant in mutants)
        found.append(("mutants caught", f"{caught} of {len(mutants)}"))
    if "tokens" in run:
        found.append(("tokens", plain(run["tokens"])))
    claimed = rates(run)
    if claimed:
        names = ("X, total variation", "alpha, false alarms", "beta, misses")
        found += list(zip(names, map(plain, claimed), strict=True))
    elif "alpha" in run:
        found.append(("alpha", plain(run["alpha"])))
    if "seconds" in run:
        found.append(("seconds", plain(run["seconds"])))
    return found
