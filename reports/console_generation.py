"""Generated text on a terminal: where each token came from, the figures, and the tree of a round."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

Record = dict[str, Any]

_STYLES = {"anchor": "green", "probe": "magenta", "filler": "yellow", "residual": "red", "bonus": "blue"}
_ENDS = {
    "eos": "the end-of-sequence token",
    "stop": "a stop string",
    "length": "the number of new tokens",
    "context": "the end of the target's context",
    None: "an interrupt",
}


def legend(console: Console) -> None:
    """One line: the colours of the origins."""
    console.print(Text("  ").join(Text(origin, style) for origin, style in _STYLES.items()))


def piece(console: Console, text: str, origin: str) -> None:
    """Text in the colour of its origin, without a line's end; what would steer the terminal is left out."""
    shown = "".join(each for each in text if each in "\n\t" or each.isprintable())
    console.out(shown, style=_STYLES[origin], end="", highlight=False)


def summary(record: Record, on_stderr: bool) -> None:
    """The record of `rheo generate`: two lines of figures."""
    console = Console(stderr=on_stderr, highlight=False)
    speed = f"{record['tokens_per_second']:.1f} tokens/s, {record['rounds']} rounds, tau {record['tau']:.2f}"
    line = f"{len(record['tokens'])} tokens, {speed}; ended by {_ENDS[record['end']]}"
    console.print(line, markup=False, soft_wrap=True)
    shares = [f"{each['depth']}: {each['share']:.2f} of {each['rounds']}" for each in record["acceptance"]]
    if shares:
        console.print(f"accepted at depth {', '.join(shares)}", markup=False, soft_wrap=True)


def tree(record: Record, on_stderr: bool) -> None:
    """The tree of a round, with the path that was accepted."""
    console = Console(stderr=on_stderr, highlight=False)
    found = record["tree"]
    top = Tree(Text(f"round {found['round']}: {found['nodes']} drafted, {found['accepted']} accepted", "bold"))
    branches = [top]
    for node in found["rows"]:
        style = f"bold {_STYLES[node['kind']]}" if node["accepted"] else f"dim {_STYLES[node['kind']]}"
        label = Text(f"{node['text']!r} {node['kind']} {node['score']:.3g}{'  accepted' if node['accepted'] else ''}")
        label.stylize(style)
        branches.append(branches[node["parent"]].add(label))
    last = found["last"]
    branches[found["end"]].add(Text(f"{last['text']!r} {last['kind']}", f"bold {_STYLES[last['kind']]}"))
    console.print(top)
