"""Mechanisms by what they promise: what is protected, whom one trusts, what is published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.model import Task
from dpmc_core.privacy import (
    CELL,
    RATING,
    ROW_VALUES,
    USER_EMPTIED,
    USER_REPLACED,
    Guarantee,
    Publishes,
    Trust,
)
from dpmc_core.problem import prepared_facts
from dpmc_core.ratings import PublicFacts
from dpmc_lab.curves import cards, measurements, text
from dpmc_lab.curves.cards import State
from dpmc_lab.study.advice import Protect, advised
from dpmc_lab.sweep.presets import EPSILONS

PROTECT: Mapping[Protect, str] = {
    Protect.RATING: "each rating, even from the server",
    Protect.PERSON: "the whole person, server trusted",
}
PREDICTS = {Task.BINARY: "likes", Task.RATINGS: "ratings", Task.RANKING: "top lists"}
ANY = PublicFacts(users=100, items=100, low=0, high=1)  # to group by, where no data are at hand
_PROTECTS = {  # in the order of the groups
    RATING: "Each rating's value",
    ROW_VALUES: "All values of one person",
    CELL: "Each rating and that it exists",
    USER_EMPTIED: "The whole person",
    USER_REPLACED: "The whole person",
}
_TRUST = {
    Trust.LOCAL: "even from the server",
    Trust.CURATOR: "server trusted",
    Trust.AGGREGATOR: "third party trusted",
    Trust.FEDERATED: "each party trusted with its own users",
}


class Choice(NamedTuple):
    """One mechanism of a group. state: where its claim stands.

    recommended: for which epsilons the rule advises it, in words; empty where for none.
    """

    id: str
    name: str
    predicts: str
    publishes: str
    state: State
    recommended: str


class Group(NamedTuple):
    """Mechanisms that protect the same and trust the same, those recommended first."""

    protects: str
    trust: str
    choices: tuple[Choice, ...]

    @property
    def rank(self) -> int:
        """Of its trust: from what asks for none to what asks for most."""
        return list(_TRUST.values()).index(self.trust)

    @property
    def title(self) -> str:
        return f"{self.protects}, {self.trust}"


def cards_of(
    ids: Iterable[str], public: PublicFacts, epsilon: float = 1.0
) -> tuple[dict[str, Guarantee], tuple[DpmcError, ...]]:
    """The cards on public facts, and what hinders the others, each problem once."""
    guarantees: dict[str, Guarantee] = {}
    problems: dict[str, DpmcError] = {}
    for id in ids:
        try:
            public_facts = prepared_facts(public, registry.get(id).task)
            guarantees[id] = registry.create(id, epsilon=epsilon).guarantee(public_facts)
        except DpmcError as error:
            problems.setdefault(str(error), error)
    return guarantees, tuple(problems.values())


def grouped(
    guarantees: Mapping[str, Guarantee], refuted: Callable[[str], bool] | None = None
) -> tuple[Group, ...]:
    """Mechanisms by their cards, from what protects least to what protects most.

    refuted: whether an attack found more than a mechanism claims (default: by what ships).
    """
    refuted = refuted or (lambda id: measurements.refuted(measurements.shipped_of(id)))
    groups: dict[tuple[str, Trust], list[Choice]] = {}
    order = {protects: k for k, protects in enumerate(dict.fromkeys(_PROTECTS.values()))}
    for id, guarantee in guarantees.items():
        cls = registry.get(id)
        query = cls.task, guarantee.change, guarantee.public
        here = [e for e in EPSILONS if advised(*query, e, guarantee.trust) == id]
        recommended = "recommended" if here else ""
        if here and here[-1] < EPSILONS[-1]:
            recommended += f" up to epsilon {here[-1]:g}"
        elif here and here[0] > EPSILONS[0]:
            recommended += f" from epsilon {here[0]:g} on"
        choice = Choice(
            id=id,
            name=cls.name,
            predicts=PREDICTS[cls.task],
            publishes=published(guarantee.publishes),
            state=cards.state_of(guarantee, refuted=refuted(id)),
            recommended=recommended,
        )
        groups.setdefault((_PROTECTS[guarantee.change], guarantee.trust), []).append(choice)
    task_labels = list(PREDICTS.values())
    for choices in groups.values():
        choices.sort(
            key=lambda option: (task_labels.index(option.predicts), not option.recommended)
        )
    group_keys = sorted(groups, key=lambda g: (order[g[0]], list(_TRUST).index(g[1])))
    return tuple(
        Group(group_key[0], _TRUST[group_key[1]], tuple(groups[group_key]))
        for group_key in group_keys
    )


def summary(groups: Iterable[Group], epsilon: float) -> str:
    """The finding: how many claims are proved, only claimed, or refuted."""
    states = [choice.state for group in groups for choice in group.choices]
    counts = [(states.count(state), state.word) for state in State]
    phrases = [f"{count} {'is' if count == 1 else 'are'} {word}" for count, word in counts if count]
    told = ", ".join([*phrases[:-2], " and ".join(phrases[-2:])])
    return f"Of {text.many(len(states), 'claim')} at epsilon {epsilon:g}, {told}"


def published(publishes: Publishes) -> str:
    """What leaves the trusted side, in a few words."""
    return publishes.value.split(";")[0].split(",")[0]


def promised(card: Guarantee) -> str:
    """What one card protects and whom it trusts, in a few words."""
    what = _PROTECTS[card.change]
    claimed = "" if cards.upheld(card) else " (claimed only)"
    return f"{what[:1].lower()}{what[1:]}, {_TRUST[card.trust]}{claimed}"
