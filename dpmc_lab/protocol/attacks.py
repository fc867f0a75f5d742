"""What curious parties can compute from what they see in scenarios 2 and 3.

HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015), describes the
difference attack on single gradients; the attacks on sums and on attendance are not in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import Floats
from dpmc_lab.protocol.scenarios import ANSWER, ScenarioRun

_MAX_CELLS = 20_000_000  # of the largest system of equations: 160 MB


class RecoveredGradient(NamedTuple):
    """What an attack computed of one user's gradients, and the truth it was after.

    Of attendance the gradient is the one due at the factors sent in a round the user was absent
    from. allowed: the error up to which the attack counts as right. centred: less the mean of all
    users attacked, as one vector common to all cannot be told.
    """

    user: str
    estimate: Floats
    truth: Floats
    allowed: float
    centred: bool = False

    @property
    def error(self) -> float:
        """The largest error of a number."""
        return float(np.abs(self.estimate - self.truth).max())

    @property
    def relative_error(self) -> float:
        """The largest error, relative to the largest number of the truth."""
        return self.error / float(np.abs(self.truth).max())

    @property
    def succeeds(self) -> bool:
        return self.error <= self.allowed


def run_difference_attack(run: ScenarioRun) -> list[RecoveredGradient]:
    """The third party's difference attack on every user who answered for the watched item.

    A user's answers in the first two rounds are subtracted mod P: the own noise, the same in both,
    cancels. Right is what is off by no more than fixed-point rounding. Empty where the kept
    transcript does not hold both answers of anyone.
    """
    item, fixed_point, phase = run.wire.watch, run.settings.fixed_point, run.phases[0]
    answers = {(m.sender, m.round): m.payload["answer"] for m in run.transcript if m.kind == ANSWER}
    recovered = []
    for user in run.user_of_pair[run.item_of_pair == item]:
        name, user_factor = run.wire.get_user_name(int(user)), phase.user_factors[user]
        first, second = (name, 1), (name, 2)
        if not {first, second} <= set(answers):
            continue
        factor_change = phase.models[1][item] - phase.models[0][item]
        truth = 2 * user_factor * float(user_factor @ factor_change)
        computed = fixed_point.decode(fixed_point.reduce(answers[second] - answers[first]))
        recovered.append(RecoveredGradient(name, computed, truth, 2 * fixed_point.step))
    return recovered


def run_attendance_attack(run: ScenarioRun, item: int) -> list[RecoveredGradient]:
    """Single gradients for an item by a recommender that only listens, in scenario 3.

    It knows the factors v(t) it sent, whom a sum is over (it takes their masks off), and the sums
    s(t) = sum over those there of (W_u v(t) + w_u) + eta, W_u = 2 u u', w_u = -2 r u, with the same
    eta in every round. These are linear equations in all W_u, w_u and eta, solved by least squares;
    users with the same attendance are told apart by nothing and left out. Where equally many are in
    every sum, w_u + c and eta - k c fit as well: what is found is how gradients differ. The last
    phase alone is attacked: eta and the u of another are others. Right is what is off by
    one part in a hundred at most. Empty where everybody was always there.
    """
    item_pairs, phase = np.flatnonzero(run.item_of_pair == item), run.phase
    rounds = [t for t, (_, stepped_items) in enumerate(phase.steps) if item in stepped_items]
    rounds = rounds[-max(1, _MAX_CELLS // (len(item_pairs) * run.items.shape[1] ** 3 + 1)) :]
    if not rounds:
        return []
    attended = np.array([np.isin(item_pairs, phase.steps[t][0]) for t in rounds])
    patterns, pattern_index, pattern_sizes = np.unique(
        attended, axis=1, return_inverse=True, return_counts=True
    )
    models = np.array([phase.models[t][item] for t in rounds])
    sums = np.array([phase.sums[t][item] for t in rounds])
    centre = models.mean(axis=0)
    deviation = float(np.abs(models - centre).max()) or 1.0
    terms = np.array(
        [_affine_terms((v - centre) / deviation) for v in models]
    )  # rounds x d x unknowns
    eta = np.broadcast_to(np.eye(len(centre)), (len(rounds), len(centre), len(centre)))
    blocks = [terms * column[:, None, None] for column in patterns.T]
    system = np.concatenate([*blocks, eta], axis=2).reshape(len(rounds) * len(centre), -1)
    solved = np.linalg.lstsq(system, sums.ravel(), rcond=None)[0]
    names, gradients, truths = [], [], []
    n_unknowns = terms.shape[2]
    for pair, k in zip(item_pairs, pattern_index.ravel(), strict=True):
        absent_rounds = np.flatnonzero(~patterns[:, k])
        if pattern_sizes[k] > 1 or not 0 < len(absent_rounds) < len(rounds):
            continue
        round_index = int(absent_rounds[-1])
        gradients.append(terms[round_index] @ solved[k * n_unknowns : (k + 1) * n_unknowns])
        truths.append(run.users.gradient(np.array([pair]), models[round_index][None])[0])
        names.append(run.wire.get_user_name(int(run.user_of_pair[pair])))
    centred = len(np.unique(attended.sum(axis=1))) == 1
    if centred and names:
        gradients, truths = (
            list(vectors - np.mean(vectors, axis=0)) for vectors in (gradients, truths)
        )
    return [
        RecoveredGradient(name, gradient, truth, 0.01 * float(np.abs(truth).max()), centred)
        for name, gradient, truth in zip(names, gradients, truths, strict=True)
    ]


def _affine_terms(v: Floats) -> Floats:
    """v -> W v + w with W symmetric, as a d x (d (d + 1)/2 + d) matrix on the entries of W, w."""
    d = len(v)
    rows, columns = np.triu_indices(d)
    position = np.arange(len(rows))
    matrix = np.zeros((d, len(rows) + d))
    matrix[rows, position] = v[columns]
    matrix[columns, position] = v[rows]
    matrix[:, len(rows) :] = np.eye(d)
    return matrix


class SumErrors(NamedTuple):
    """How far a recommender that compares sums is off A, the sum of u u' over an item's raters.

    passive: one that only listens, None where there are too few rounds; active: one that chooses
    what it sends; largest: the largest entry of A.
    """

    passive: float | None
    active: float
    largest: float


def run_sum_attacks(run: ScenarioRun) -> SumErrors:
    """Both attacks on the sums of the watched item in the last phase of a finished run."""
    item = run.wire.watch
    assert item is not None
    truth, passive = compute_true_squares(run, item), None
    if len(run.phase.sums) > 1:
        models, sums = ([row[item] for row in rows] for rows in (run.phase.models, run.phase.sums))
        passive_estimate = recover_squares_passively(models[: len(sums)], sums)
        passive = float(np.abs(passive_estimate - truth).max())
    active_estimate = recover_squares_actively(
        build_sum_query(run, item), len(truth), longest_reach(run, item)
    )
    return SumErrors(
        passive, float(np.abs(active_estimate - truth).max()), float(np.abs(truth).max())
    )


def recover_squares_passively(models: Sequence[Floats], sums: Sequence[Floats]) -> Floats:
    """A_j from the item factors v(t) and noisy sums s(t) = 2 A_j v(t) - 2 b_j + eta of a run.

    Differences cancel b and eta: 2 A_j (v(t) - v(t')) = s(t) - s(t'), solved by least squares.
    """
    differences = np.diff(np.array(models), axis=0)
    estimate = np.linalg.lstsq(2 * differences, np.diff(np.array(sums), axis=0), rcond=None)[0]
    return np.asarray((estimate + estimate.T) / 2, dtype=np.float64)


def recover_squares_actively(
    query_sum: Callable[[Floats], Floats], rank: int, reach: float
) -> Floats:
    """A_j by a recommender that chooses what it sends: v = 0 and `reach` times each unit vector.

    query_sum: the noisy sum for a chosen v, through the protocol. Fixed-point rounding in the
    answers is divided by 2 reach, so a long v reads A_j off as exactly as one likes.
    """
    base = query_sum(np.zeros(rank))
    columns = [(query_sum(reach * axis) - base) / (2 * reach) for axis in np.eye(rank)]
    estimate = np.array(columns)
    return (estimate + estimate.T) / 2


def build_sum_query(run: ScenarioRun, item: int) -> Callable[[Floats], Floats]:
    """The noisy sum of one item at chosen factors, masked and summed as in any round.

    For a run of scenario 2 that has been set up: the users' shares of noise are in.
    """
    pairs = np.flatnonzero(run.item_of_pair == item)
    group = run.item_of_pair[pairs]

    def query_sum(v: Floats) -> Floats:
        sent_factors = np.broadcast_to(v, (len(pairs), len(v)))
        masks = run.recommender.draw_masks(len(pairs))
        masked_total = run.third_party.add_answers(
            run.users.answer_gradients(pairs, sent_factors, run.raters[group], masks), group
        )
        sums = run.settings.fixed_point.decode(run.recommender.unmask(masked_total, masks, group))
        return np.asarray(sums[item])

    return query_sum


def compute_true_squares(run: ScenarioRun, item: int) -> Floats:
    """A_j = sum u_i u_i' over the raters of an item: what no party is meant to learn."""
    rater_factors = run.users.factors[run.item_of_pair == item]
    squares: Floats = rater_factors.T @ rater_factors
    return squares


def longest_reach(run: ScenarioRun, item: int) -> float:
    """The longest v that passes every user's range check with room to spare, a power of two."""
    fixed_point, k = run.settings.fixed_point, int(run.raters[item])
    headroom = fixed_point.max_sum / k / 4 - float(
        np.abs(run.users.linear[run.item_of_pair == item]).max()
    )
    return float(2.0 ** np.floor(np.log2(max(headroom / 2, 1.0))))
