"""Whether the order of a model is that of its data: tracks of a thing with inertia keep their velocities."""

from __future__ import annotations

from itofit._checks import Either, Message
from itofit.learning.second_order.order import LEAST_SHARE, persistence
from itofit.looking.check.examined import ExaminedRows
from itofit.looking.check.findings import Finding
from itofit.looking.check.phrases import p_text
from itofit.looking.check.thresholds import SECOND_ORDER

NAME, TITLE = "order", "first or second order"


def other_order(rows: ExaminedRows, level: float) -> Finding | None:
    """A finding if the data show another order than the model has (`itofit.learning.second_order.order`)."""
    kind = rows.observed.kind
    if kind not in ("diffusion", "positions") or rows.why_no_time:
        return None
    shown = persistence(rows.observed[rows.order])
    share = f"{shown.share:.0%} +- {shown.error:.0%} of the motion keeps its velocity"
    values = {"p": shown.p, "share": shown.share, "share_error": shown.error}
    if kind == "positions" and shown.order == "first":
        return Finding(
            name=NAME,
            title=TITLE,
            values=values,
            numbers=share,
            verdict="caution",
            text="The system does not keep its velocity from step to step: it has no inertia, or steps are longer than "
            "velocities last.",
            advice=Message(
                "Learn it as a first-order system, {how}, or observe at shorter steps.",
                how=Either(python="with Transitions.from_trajectories", command="without --second-order"),
            ),
        )
    if kind == "diffusion" and shown.order == "second" and shown.p < level:
        return Finding(
            name=NAME,
            title=TITLE,
            values=values,
            numbers=f"{share}, {p_text(shown.p)}",
            verdict="bad" if shown.share >= SECOND_ORDER else "caution",
            text="The tracks keep their velocity from step to step beyond what the state says of it: "
            f"{shown.share:.0%} of the motion does, in a first-order system none, and {LEAST_SHARE:.0%} matters. There "
            "is inertia, or noise with a memory.",
            advice=Message(
                "Learn it as a second-order system from its positions, {how}.",
                how=Either(python="with Transitions.from_positions", command="with --second-order"),
            ),
        )
    return None
