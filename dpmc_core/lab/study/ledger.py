"""One ledger for a study: everything that was done with one data set, composed unit by unit.

Runs for one's own eyes, audits and releases are entries, each with what it spends per unit of
privacy. Two sums are made of them: what it would cost if everything were published, and
what was released. Losses compose by the accountant, never epsilons of different units. One entry
without a finite bound makes its unit infinite, with the reason.

Entries come from a result store (whose rows are runs) and from a file of this machine's user, where
`note` writes what no store keeps. Data are known by their fingerprint: an edited file is another
data set. Metrics on held-out ratings are raw, and no entry covers them.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import paths, registry
from dpmc_core.arrays import Floats
from dpmc_core.data import Dataset
from dpmc_core.errors import DpmcError
from dpmc_core.experiment import settings_dict
from dpmc_core.lab.store import CurveInfo, Store, counts, restored
from dpmc_core.lab.sweep import Unit, Whole
from dpmc_core.model import Mechanism
from dpmc_core.privacy import DELTA, Budget, Certified, Change, Guarantee, Loss, calibrate
from dpmc_core.privacy.accounting import Pure
from dpmc_core.problem import Problem
from dpmc_core.ratings import PublicFacts

_CHANGES = {change.value: change for change in Change}


class Kind(enum.Enum):
    """What was done with the ratings."""

    FIT = "fit"  # a run for one's own eyes
    AUDIT = "audit"
    CHOICE = "choice"  # the best of random runs, as former versions noted it
    RELEASE = "release"


_ORDERS = 1 + np.geomspace(1e-3, 1e6, 4000)  # of Renyi divergence: each of them gives a bound


@dataclass(frozen=True)
class Selection:
    """What former versions noted of a private choice: the best of K runs, K drawn at random.

    Each run draws a candidate that spends one of the losses; K has a truncated negative binomial
    distribution (Papernot, Steinke, "Hyperparameter tuning with Renyi differential privacy", 2022).

    Args:
        mean: of K, >= 1.
        eta: 1 is the geometric distribution, 0 the logarithmic one.
        losses: of the candidates; a mixture spends no more than the worst of them.
    """

    mean: float
    eta: float
    losses: tuple[Loss, ...]

    @property
    def pure(self) -> float:
        """The epsilon at delta 0: 2 + eta times that of the worst run (Theorem 2, in the limit)."""
        worst = max(math.inf if loss.mu > 0 else loss.epsilon for loss in self.losses)
        return worst if self.mean == 1 else (2 + self.eta) * worst

    def renyi(self) -> Floats:
        """A bound on the Renyi divergence of the best run at each of `_ORDERS` (Theorem 2)."""
        from scipy.optimize import brentq  # half a second that no other ledger needs

        def excess(t: float) -> float:
            rising = -math.expm1(-self.eta * t) / self.eta if self.eta > 0 else t
            return math.expm1(t) / rising - self.mean

        one = np.max([renyi(loss, _ORDERS) for loss in self.losses], axis=0)
        # ln(1/gamma) of the paper's gamma, from the mean
        t = 0.0 if self.mean == 1 else brentq(excess, 1e-12, 50.0, xtol=1e-15)
        # The inner order may approach 1, where the first term vanishes.
        inner = np.append((1 - 1 / _ORDERS) * one + t / _ORDERS, t)
        found: Floats = one + (1 + self.eta) * inner.min() + math.log(self.mean) / (_ORDERS - 1)
        return found

    def epsilon_at(self, delta: float) -> float:
        """The epsilon of publishing the best run alone.

        Proposition 12 of Canonne, Kamath, Steinke, "The discrete Gaussian for differential
        privacy", 2020.
        """
        if delta == 0:
            return self.pure
        orders = _ORDERS
        spent = np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
        return min(self.pure, max(0.0, float((self.renyi() + spent).min())))


def renyi(loss: Loss, orders: Floats) -> Floats:
    """The Renyi divergence, at orders > 1, of whatever spends a loss; attained by the worst.

    Gaussian: order mu^2 / 2. Pure: that of randomised response (Mironov, "Renyi differential
    privacy", 2017).
    """
    epsilon = loss.epsilon
    if math.isinf(epsilon) or math.isinf(loss.mu):
        return np.full(orders.shape, math.inf)
    right = -math.log1p(math.exp(-epsilon))
    wrong = right - epsilon
    terms = (orders * a + (1 - orders) * b for a, b in ((right, wrong), (wrong, right)))
    pure = np.logaddexp(*terms) / (orders - 1)
    found: Floats = np.minimum(pure, epsilon) + orders * loss.mu**2 / 2
    return found


# What an entry spends on a change; text: why there is no finite bound.
Cost = Loss | Selection | str


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """So many runs of one method at one setting.

    epsilon: the setting, None for a method without privacy, which has no costs: it counts, and no
    number covers it. costs: of all runs together, by change. key: of the result, where equal keys
    mean the same numbers again; "" where each has noise of its own.
    """

    kind: Kind
    mechanism: str
    epsilon: float | None
    costs: Mapping[Change, Cost]
    count: int = 1
    key: str = ""


class LedgerPart(NamedTuple):
    """Entries of one kind and method: (lowest, highest) setting of epsilon, and what they spend."""

    kind: Kind
    mechanism: str
    runs: int
    epsilons: tuple[float, float]
    composed: Mapping[Change, Certified]


@dataclass(frozen=True)
class Study:
    """Everything that is known to have been done with one data set."""

    entries: tuple[LedgerEntry, ...]
    delta: float = DELTA

    @property
    def private(self) -> tuple[LedgerEntry, ...]:
        return tuple(entry for entry in self.entries if entry.epsilon is not None)

    def count(self, kind: Kind | None = None) -> int:
        """Private entries, of one kind or all."""
        return sum(entry.count for entry in self.private if kind in (None, entry.kind))

    @property
    def without_privacy(self) -> int:
        """Runs without privacy, which no epsilon covers."""
        return sum(entry.count for entry in self.entries if entry.epsilon is None)

    def published(self, change: Change) -> Certified:
        """What it would cost to publish what every private entry found."""
        return compose(self.private, change, self.delta)

    def released(self, change: Change) -> Certified:
        """What was released costs so much."""
        found = [entry for entry in self.private if entry.kind is Kind.RELEASE]
        return compose(found, change, self.delta)

    def parts(self) -> tuple[LedgerPart, ...]:
        """By kind and method."""
        groups: dict[tuple[Kind, str], list[LedgerEntry]] = {}
        for entry in self.private:
            groups.setdefault((entry.kind, entry.mechanism), []).append(entry)
        return tuple(
            LedgerPart(
                *group,
                sum(entry.count for entry in found),
                (min(settings), max(settings)),
                {change: compose(found, change, self.delta) for change in Change},
            )
            for group, found in sorted(groups.items(), key=lambda one: list(Kind).index(one[0][0]))
            for settings in [[entry.epsilon or 0.0 for entry in found]]
        )


def compose(entries: Iterable[LedgerEntry], change: Change, delta: float) -> Certified:
    """What entries spend together on a change, or infinity and which of them has no bound, and why.

    Losses add up. Private choices are no losses: each adds its epsilon, all at delta 0, or each at
    an equal share of delta beside the losses, whichever is less.
    """
    spent, choices = Loss(), list[Selection]()
    for entry in entries:
        cost = entry.costs[change]
        if isinstance(cost, str):
            at = "" if entry.epsilon is None else f" at epsilon {entry.epsilon:g}"
            return Certified(change, math.inf, delta, f"{entry.mechanism}{at}: {cost}")
        if isinstance(cost, Selection):
            choices += [cost] * entry.count
        else:
            spent += cost
    epsilon = spent.epsilon_at(delta) + sum(choice.epsilon_at(0.0) for choice in choices)
    if choices:
        part = delta / (len(choices) + (spent != Loss()))
        each = (choice.epsilon_at(part) for choice in choices)
        epsilon = min(epsilon, spent.epsilon_at(part) + sum(each))
    reason = "" if math.isfinite(epsilon) else "Gaussian noise gives no finite epsilon at delta = 0"
    return Certified(change, epsilon, delta, reason)


def costs_of(card: Guarantee, count: int = 1) -> dict[Change, Cost]:
    """What so many publications under a card spend, by change."""
    again, found = card.repeated(count), dict[Change, Cost]()
    for change in Change:
        loss = again.loss(change)
        endless = math.isinf(loss.epsilon) or math.isinf(loss.mu)
        found[change] = card.certified(change).reason if endless else loss
    return found


def entry(
    kind: Kind, mechanism: Mechanism, public: PublicFacts, *, count: int = 1, key: str = ""
) -> LedgerEntry:
    """Runs of a method. public: facts of the ratings it was trained on."""
    private = registry.adds_noise(type(mechanism))
    return LedgerEntry(
        kind=kind,
        mechanism=mechanism.id,
        epsilon=settings_dict(mechanism)["epsilon"] if private else None,
        costs=costs_of(mechanism.guarantee(public), count) if private else {},
        count=count,
        key=key,
    )


def fits(
    mechanisms: Iterable[Mechanism], problem: Problem, source: str, seed: int
) -> tuple[LedgerEntry, ...]:
    """Runs on one problem, for one's own eyes. source: fingerprint of the whole data."""
    about = source, problem.name, problem.steps, None, problem.split
    units = (Unit(*about, mechanism, seed) for mechanism in mechanisms)
    return units_done(units, problem.train.public)


def units_done(units: Iterable[Unit], public: PublicFacts) -> tuple[LedgerEntry, ...]:
    """Units of a plan that have been run on ratings with these facts."""
    return tuple(entry(Kind.FIT, unit.mechanism, public, key=unit.key) for unit in units)


def release(mechanism: Mechanism, card: Guarantee) -> LedgerEntry:
    """A release under a card as sampled."""
    setting = settings_dict(mechanism).get("epsilon")
    return LedgerEntry(
        kind=Kind.RELEASE, mechanism=mechanism.id, epsilon=setting, costs=costs_of(card)
    )


def study(
    source: str, store: Store | None, others: Iterable[LedgerEntry] = (), delta: float = DELTA
) -> Study:
    """The rows of a data set in a store with other entries: a result that is in both counts once.

    A run whose data, preparation, split, settings and seed are the same has the same noise too: it
    is the same output again, and spends nothing more.
    """
    known = {entry.key or str(number): entry for number, entry in enumerate(others)}
    rows: list[LedgerEntry] = []
    if store is not None:
        rows = [_row(*row) for row in counts(store, source)]
        for key in store.present(known):
            del known[key]
    return Study((*rows, *known.values()), delta)


def _row(info: CurveInfo, epsilon: float | None, count: int) -> LedgerEntry:
    """Rows of a curve at one epsilon: their card is made again from what they store."""
    cls = registry.MECHANISMS.get(info.mechanism)
    if epsilon is None or (cls is not None and cls.revision == info.revision):
        try:
            mechanism = restored(info.mechanism, {**info.settings, "epsilon": epsilon})
            return entry(Kind.FIT, mechanism, info.public, count=count)
        except DpmcError:  # settings that this program does not know
            pass
    why = f"its card is of revision {info.revision}, which this program does not have"
    return LedgerEntry(
        kind=Kind.FIT,
        mechanism=info.mechanism,
        epsilon=epsilon,
        costs={} if epsilon is None else dict.fromkeys(Change, why),
        count=count,
    )


# --- the file of what no store keeps -------------------------------------------------------------


def path() -> Path:
    """The ledger's file of this machine's user."""
    return paths.home() / "ledger.jsonl"


def source_of(dataset: Dataset) -> str:
    """The fingerprint by which stores and the ledger know a data set."""
    return Whole(dataset).fingerprint


def note(source: str, name: str, entries: Iterable[LedgerEntry]) -> None:
    """Write down what was done with a data set. name: of the data. Raises DpmcError.

    A line of JSON for each entry that is not there yet, for this user's eyes alone. One that a full
    disk or a power cut left unfinished counts nothing: what is noted happens afterwards.
    """
    there = {entry.key for entry in noted(source) if entry.key}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    lines = []
    for entry in entries:
        if entry.key not in there:
            costs = {change.value: _plain_cost(cost) for change, cost in entry.costs.items()}
            plain = dataclasses.asdict(dataclasses.replace(entry, costs={}))
            plain |= {"kind": entry.kind.value, "costs": costs}
            lines.append(json.dumps({"time": now, "source": source, "name": name, **plain}))
    if not lines:
        return
    try:
        path().parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path(), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "r+b") as file:
            last = file.read().rpartition(b"\n")[2]
            if _is_cut(last):
                file.truncate(file.tell() - len(last))
            elif last:
                lines.insert(0, "")
            file.write("".join(line + "\n" for line in lines).encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise DpmcError(
            f"the ledger {path()} cannot be written ({error.strerror}): set DPMC_HOME to a folder"
            " that can"
        ) from None


def noted(source: str) -> list[LedgerEntry]:
    """What was written down of a data set. Raises DpmcError where the file cannot be read."""
    try:
        text = path().read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise DpmcError(f"the ledger {path()} cannot be read ({error})") from None
    found = []
    last = text.rpartition("\n")[2]
    for number, line in enumerate(text[: -len(last) if _is_cut(last) else None].splitlines(), 1):
        try:
            plain = json.loads(line)
            if plain["source"] == source:
                costs = {_CHANGES[unit]: _cost(cost) for unit, cost in plain["costs"].items()}
                own = {name: plain[name] for name in ("mechanism", "epsilon", "count", "key")}
                found.append(LedgerEntry(kind=Kind(plain["kind"]), costs=costs, **own))
        except (ValueError, KeyError, TypeError):
            raise DpmcError(
                f"line {number} of the ledger {path()} cannot be read: put it right, or move the"
                " file away"
            ) from None
    return found


def _is_cut(last: str | bytes) -> bool:
    """Whether what stands behind the last end of a line was never finished."""
    try:
        return bool(last) and json.loads(last) is None
    except ValueError:
        return True


def _plain_cost(cost: Cost) -> Any:
    if isinstance(cost, Selection):
        losses = [dataclasses.asdict(loss) for loss in cost.losses]
        return {"runs": {"mean": cost.mean, "eta": cost.eta}, "losses": losses}
    return cost if isinstance(cost, str) else dataclasses.asdict(cost)


def _cost(plain: Any) -> Cost:
    if isinstance(plain, str):
        return plain
    if "runs" in plain:
        return Selection(**plain["runs"], losses=tuple(_loss(loss) for loss in plain["losses"]))
    return _loss(plain)


def _loss(plain: Mapping[str, Any]) -> Loss:
    return Loss(plain["epsilon"], plain["mu"], tuple(Pure(*part) for part in plain["pure"]))


# --- releases that are repeated ------------------------------------------------------------------


class Repeats(NamedTuple):
    """Certified epsilons. total: of all publications; each: what one may spend so that they come
    to the target."""

    total: float
    each: float


def repeats(
    card_at: Callable[[float], Guarantee],
    setting: float,
    times: int,
    target: Budget,
    change: Change | None = None,
) -> Repeats:
    """What `times` publications of the same ratings add up to, each with noise of its own.

    card_at: of a setting of epsilon. Raises InvalidSetting where the certified value is infinite.
    """
    total = card_at(setting).repeated(times).certified(change, target.delta).epsilon
    alone = calibrate(lambda at: card_at(at).repeated(times), target, change)
    return Repeats(total, card_at(alone).certified(change).epsilon)
