"""Group mechanisms by privacy unit, trust and publication."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from functools import cache
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
    Trust,
)
from dpmc_core.problem import prepare_public_facts
from dpmc_core.ratings import PublicFacts
from dpmc_lab.study.advice import PrivacyUnit, find_recommended_id
from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views import cards, measurements, text
from dpmc_lab.views.cards import ClaimState

PRIVACY_UNIT_LABELS: Mapping[PrivacyUnit, str] = {
    PrivacyUnit.RATING: "each rating, even from the server",
    PrivacyUnit.PERSON: "the whole person, server trusted",
}
TASK_LABELS = {Task.BINARY: "likes", Task.RATINGS: "ratings", Task.RANKING: "top lists"}
# Mechanisms are grouped by these facts where there is no data set.
ANY_PUBLIC_FACTS = PublicFacts(users=100, items=100, low=0, high=1)
_CHANGE_LABELS = {  # in the order of the groups
    RATING: "Each rating's value",
    ROW_VALUES: "All values of one person",
    CELL: "Each rating and that it exists",
    USER_EMPTIED: "The whole person",
    USER_REPLACED: "The whole person",
}
_TRUST_LABELS = {
    Trust.LOCAL: "even from the server",
    Trust.CURATOR: "server trusted",
    Trust.AGGREGATOR: "third party trusted",
    Trust.FEDERATED: "each party trusted with its own users",
}


class MechanismChoice(NamedTuple):
    """One mechanism of a group.

    Attributes:
        id, name: of the mechanism.
        predicts: what its task predicts, in words.
        publishes: what leaves the trusted side, in words.
        state: state of its claim.
        recommended: at which epsilons it is recommended, in words; empty if at none.
    """

    id: str
    name: str
    predicts: str
    publishes: str
    state: ClaimState
    recommended: str


class MechanismGroup(NamedTuple):
    """Mechanisms with the same privacy unit and the same trust, those recommended first."""

    protects: str
    trust: str
    choices: tuple[MechanismChoice, ...]

    @property
    def rank(self) -> int:
        """Return the position of the group's trust, from the least trust required to the most."""
        return list(_TRUST_LABELS.values()).index(self.trust)

    @property
    def title(self) -> str:
        """Return what the group protects, and which party it trusts."""
        return f"{self.protects}, {self.trust}"


def build_guarantees(
    ids: Iterable[str], public: PublicFacts, epsilon: float = 1.0
) -> tuple[dict[str, Guarantee], tuple[DpmcError, ...]]:
    """Return guarantees of mechanisms by id, and why the others have none on these public facts.

    Args:
        ids: ids of the mechanisms.
        public: public facts of the ratings before preparation.
        epsilon: setting of all mechanisms.
    """
    guarantees: dict[str, Guarantee] = {}
    problems: dict[str, DpmcError] = {}
    for id in ids:
        try:
            public_facts = prepare_public_facts(public, registry.get_mechanism(id).task)
            guarantees[id] = registry.create(id, epsilon=epsilon).guarantee(public_facts)
        except DpmcError as error:
            problems.setdefault(str(error), error)
    return guarantees, tuple(problems.values())


def group_mechanisms(
    guarantees: Mapping[str, Guarantee], refuted: Callable[[str], bool] | None = None
) -> tuple[MechanismGroup, ...]:
    """Group mechanisms by their guarantees, from what protects least to what protects most.

    Args:
        guarantees: guarantees by mechanism id.
        refuted: returns whether an attack found more than a mechanism claims (default: by the
            audits that ship with the program).
    """
    refuted = refuted or (
        lambda id: measurements.is_refuted(measurements.find_default_measured_bound(id))
    )
    recommend = cache(find_recommended_id)  # which many mechanisms ask the same
    groups: dict[tuple[str, Trust], list[MechanismChoice]] = {}
    for id, guarantee in guarantees.items():
        cls = registry.get_mechanism(id)
        recommended_epsilons = [
            e
            for e in EPSILONS
            if recommend(cls.task, guarantee.change, guarantee.public, e, guarantee.trust) == id
        ]
        recommended = "recommended" if recommended_epsilons else ""
        if recommended_epsilons and recommended_epsilons[-1] < EPSILONS[-1]:
            recommended += f" up to epsilon {recommended_epsilons[-1]:g}"
        elif recommended_epsilons and recommended_epsilons[0] > EPSILONS[0]:
            recommended += f" from epsilon {recommended_epsilons[0]:g} on"
        choice = MechanismChoice(
            id=id,
            name=cls.name,
            predicts=TASK_LABELS[cls.task],
            # The start of the phrase: what follows says how.
            publishes=guarantee.publishes.value.split(";")[0].split(",")[0],
            state=cards.determine_claim_state(guarantee, refuted=refuted(id)),
            recommended=recommended,
        )
        groups.setdefault((_CHANGE_LABELS[guarantee.change], guarantee.trust), []).append(choice)
    task_labels = list(TASK_LABELS.values())
    for choices in groups.values():
        choices.sort(
            key=lambda option: (task_labels.index(option.predicts), not option.recommended)
        )
    change_labels, trusts = list(_CHANGE_LABELS.values()), list(_TRUST_LABELS)
    ordered_groups = sorted(  # a group is a pair of (label of the change, trust) and its choices
        groups.items(),
        key=lambda group: (change_labels.index(group[0][0]), trusts.index(group[0][1])),
    )
    return tuple(
        MechanismGroup(change_label, _TRUST_LABELS[trust], tuple(choices))
        for (change_label, trust), choices in ordered_groups
    )


# Of a privacy unit with many mechanisms: one that its paper proposes, and the best known one.
_WELL_KNOWN = ("private-frank-wolfe", "dpals")


def shorten_groups(
    groups: Iterable[MechanismGroup], guarantees: Mapping[str, Guarantee], kept: Iterable[str]
) -> tuple[MechanismGroup, ...]:
    """Return groups with three mechanisms for each privacy unit, recommended and well-known first.

    Args:
        groups: all groups.
        guarantees: guarantees by mechanism id.
        kept: ids of mechanisms that stay in any case.
    """
    baselines = {cls.baseline for cls in registry.MECHANISMS.values()}
    choices = [choice for group in groups for choice in group.choices]
    choices.sort(
        key=lambda choice: (
            not choice.recommended, choice.id not in _WELL_KNOWN, choice.id in baselines
        )
    )  # fmt: skip
    ids = {*kept}
    for unit in PrivacyUnit:
        of_unit = (c.id for c in choices if PrivacyUnit.from_guarantee(guarantees[c.id]) is unit)
        ids.update(itertools.islice(of_unit, 3))
    shortened = (
        group._replace(choices=tuple(choice for choice in group.choices if choice.id in ids))
        for group in groups
    )
    return tuple(group for group in shortened if group.choices)


def describe_claim_states(groups: Iterable[MechanismGroup], epsilon: float) -> str:
    """Return how many claims are proved, only claimed, or refuted, in one sentence.

    Args:
        groups: the mechanisms.
        epsilon: their setting.
    """
    states = [choice.state for group in groups for choice in group.choices]
    counts = [(states.count(state), state.word) for state in ClaimState]
    phrases = [f"{count} {'is' if count == 1 else 'are'} {word}" for count, word in counts if count]
    count = text.format_count(len(states), "claim")
    return f"Of {count} at epsilon {epsilon:g}, {text.join_phrases(phrases)}"


def format_group_promise(guarantee: Guarantee) -> str:
    """Return what a guarantee protects, and which party it trusts, in a few words."""
    protection = _CHANGE_LABELS[guarantee.change]
    claimed = "" if cards.is_upheld(guarantee) else " (claimed only)"
    return f"{protection[:1].lower()}{protection[1:]}, {_TRUST_LABELS[guarantee.trust]}{claimed}"
