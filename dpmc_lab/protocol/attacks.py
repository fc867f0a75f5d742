"""Compute what curious parties can learn from what they see in scenarios 2 and 3.

HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015), describes the
difference attack on single gradients. The attacks on sums and on attendance are not in the paper.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import Floats
from dpmc_lab.protocol.scenarios import ANSWER, ScenarioRun

_MAX_CELLS = 20_000_000  # of the largest system of equations: 160 MB


class RecoveredGradient(NamedTuple):
    """An attack's estimate of one user's gradients, and the truth.

    In the attendance attack the gradient is the one at the factors sent in a round from which the
    user was absent.

    Attributes:
        user: name of the user.
        estimate, truth: arrays of shape (rank,).
        allowed: the error up to which the attack counts as successful.
        centred: whether the mean over all attacked users was subtracted, since a common vector
            cannot be identified.
    """

    user: str
    estimate: Floats
    truth: Floats
    allowed: float
    centred: bool = False

    @property
    def error(self) -> float:
        """Return the largest absolute error."""
        return float(np.abs(self.estimate - self.truth).max())

    @property
    def relative_error(self) -> float:
        """Return the largest error, relative to the largest number of the truth."""
        return self.error / float(np.abs(self.truth).max())

    @property
    def succeeds(self) -> bool:
        """Return whether the error is within the allowed one."""
        return self.error <= self.allowed


def run_difference_attack(run: ScenarioRun) -> list[RecoveredGradient]:
    """Run the third party's difference attack on every user who answered for the watched item.

    A user's answers in the first two rounds are subtracted mod P; the user's noise, the same in
    both, cancels. An estimate succeeds if it is wrong by no more than fixed-point rounding. The
    result is empty where the transcript does not hold both answers of anyone.
    """
    item = run.wire.watch
    fixed_point = run.settings.fixed_point
    phase = run.phases[0]
    answers = {(m.sender, m.round): m.payload["answer"] for m in run.transcript if m.kind == ANSWER}
    recovered = []
    for user in run.user_of_pair[run.item_of_pair == item]:
        name = run.wire.get_user_name(int(user))
        user_factor = phase.user_factors[user]
        first = (name, 1)
        second = (name, 2)
        if not {first, second} <= set(answers):
            continue
        first_model, second_model, *_ = phase.models
        factor_change = second_model[item] - first_model[item]
        truth = 2 * user_factor * float(user_factor @ factor_change)
        computed = fixed_point.decode(fixed_point.reduce(answers[second] - answers[first]))
        # Each of the two answers was rounded.
        recovered.append(RecoveredGradient(name, computed, truth, 2 * fixed_point.step))
    return recovered


def run_attendance_attack(run: ScenarioRun, item: int) -> list[RecoveredGradient]:
    """Recover single gradients for an item as a recommender that only listens, in scenario 3.

    A user has the factors u and the rating r; t counts rounds. The recommender knows the factors
    v(t) that it sent, which users a sum is over (it removes their masks), and the sums s(t) = sum
    over those present of (W_u v(t) + w_u) + eta, with W_u = 2 u u', w_u = -2 r u and the same noise
    eta in every round. These are linear equations in all W_u, w_u and eta, solved by least squares.
    Users with the same attendance cannot be distinguished and are left out. Where every sum has the
    same number k of users, w_u + c and eta - k c fit as well for any vector c, so only the
    differences of gradients are found. The attack uses only the last phase, since eta and u are
    different in other phases. An estimate succeeds if it is wrong by at most one part in a hundred.
    The result is empty where everybody was always present.

    Args:
        run: a run of scenario 3.
        item: index of the attacked item.
    """
    item_pairs = np.flatnonzero(run.item_of_pair == item)
    phase = run.phase
    rounds = [t for t, (_, stepped_items) in enumerate(phase.steps) if item in stepped_items]
    # Use only as many of the last rounds as the system of equations has room for.
    rounds = rounds[-max(1, _MAX_CELLS // (len(item_pairs) * run.items.shape[1] ** 3 + 1)) :]
    if not rounds:
        return []
    # The attendance by round and pair, and the distinct columns of it.
    attended = np.array([np.isin(item_pairs, phase.steps[t][0]) for t in rounds])
    patterns, pattern_index, pattern_sizes = np.unique(
        attended, axis=1, return_inverse=True, return_counts=True
    )
    models = np.array([phase.models[t][item] for t in rounds])
    sums = np.array([phase.sums[t][item] for t in rounds])
    # Centred and scaled factors make the equations well conditioned; w_u then stands for the
    # gradient at the centre.
    centre = models.mean(axis=0)
    deviation = float(np.abs(models - centre).max()) or 1.0
    # Array of shape (n_rounds, d, n_unknowns).
    terms = np.array([_build_affine_terms((v - centre) / deviation) for v in models])
    eta = np.broadcast_to(np.eye(len(centre)), (len(rounds), len(centre), len(centre)))
    blocks = [terms * column[:, None, None] for column in patterns.T]
    system = np.concatenate([*blocks, eta], axis=2).reshape(len(rounds) * len(centre), -1)
    solved = np.linalg.lstsq(system, sums.ravel(), rcond=None)[0]
    names = []
    gradients = []
    truths = []
    n_unknowns = terms.shape[2]
    for pair, k in zip(item_pairs, pattern_index.ravel(), strict=True):
        absent_rounds = np.flatnonzero(~patterns[:, k])
        if pattern_sizes[k] > 1 or not 0 < len(absent_rounds) < len(rounds):
            continue
        round_index = int(absent_rounds[-1])  # in no sum of this round is the user's gradient
        gradients.append(terms[round_index] @ solved[k * n_unknowns : (k + 1) * n_unknowns])
        truths.append(run.users.gradient(np.array([pair]), models[round_index][None])[0])
        names.append(run.wire.get_user_name(int(run.user_of_pair[pair])))
    # Where every round has as many users, adding one vector to all gradients changes no sum.
    centred = len(np.unique(attended.sum(axis=1))) == 1
    if centred and names:
        gradients, truths = (
            list(vectors - np.mean(vectors, axis=0)) for vectors in (gradients, truths)
        )
    return [
        # Within 1 % of the largest coordinate a gradient counts as recovered.
        RecoveredGradient(name, gradient, truth, 0.01 * float(np.abs(truth).max()), centred)
        for name, gradient, truth in zip(names, gradients, truths, strict=True)
    ]


def _build_affine_terms(v: Floats) -> Floats:
    """Return the matrix that gives W v + w when multiplied by the entries of W and w.

    W is symmetric, so only its upper triangle counts.

    Args:
        v: array of shape (d,).

    Returns:
        Array of shape (d, d (d + 1)/2 + d), for the upper triangle of W and then w.
    """
    d = len(v)
    rows, columns = np.triu_indices(d)
    position = np.arange(len(rows))
    matrix = np.zeros((d, len(rows) + d))
    matrix[rows, position] = v[columns]
    matrix[columns, position] = v[rows]
    matrix[:, len(rows) :] = np.eye(d)
    return matrix


class SumErrors(NamedTuple):
    """Errors of a recommender that compares sums to find A, the sum of u u' over an item's raters.

    Attributes:
        passive: largest error of a recommender that only listens; None where there are too few
            rounds.
        active: largest error of a recommender that chooses what it sends.
        largest: largest entry of A.
    """

    passive: float | None
    active: float
    largest: float


def run_sum_attacks(run: ScenarioRun) -> SumErrors:
    """Run both attacks on the sums of the watched item in the last phase of a finished run."""
    item = run.wire.watch
    assert item is not None
    truth = compute_true_squares(run, item)
    passive = None
    if len(run.phase.sums) > 1:
        models, sums = ([row[item] for row in rows] for rows in (run.phase.models, run.phase.sums))
        # The last model is the one after all rounds, to which no sum belongs.
        passive_estimate = recover_squares_passively(models[: len(sums)], sums)
        passive = float(np.abs(passive_estimate - truth).max())
    active_estimate = recover_squares_actively(
        build_sum_query(run, item), len(truth), compute_longest_reach(run, item)
    )
    return SumErrors(
        passive, float(np.abs(active_estimate - truth).max()), float(np.abs(truth).max())
    )


def recover_squares_passively(models: Sequence[Floats], sums: Sequence[Floats]) -> Floats:
    """Recover A_j, the sum of u u' over the raters of an item, from what the recommender sees.

    With item factors v(t) in round t, the noisy sums are s(t) = 2 A_j v(t) - 2 b_j + eta, where b_j
    is the sum of r u over the ratings r. Differences cancel b_j and the noise eta:
    2 A_j (v(t) - v(t')) = s(t) - s(t'), which is solved by least squares.

    Args:
        models: the item's factors in each round, arrays of shape (rank,).
        sums: the noisy sum of each round, arrays of shape (rank,).

    Returns:
        Array of shape (rank, rank).
    """
    differences = np.diff(np.array(models), axis=0)
    estimate = np.linalg.lstsq(2 * differences, np.diff(np.array(sums), axis=0), rcond=None)[0]
    return np.asarray((estimate + estimate.T) / 2, dtype=np.float64)


def recover_squares_actively(
    query_sum: Callable[[Floats], Floats], rank: int, reach: float
) -> Floats:
    """Recover A_j, the sum of u u' over the raters of an item, with chosen item factors v.

    The recommender sends v = 0 and `reach` times each unit vector. Fixed-point rounding in the
    answers is divided by 2 reach, so a long v gives A_j to any accuracy.

    Args:
        query_sum: returns the noisy sum for a chosen v, through the protocol.
        rank: length of v.
        reach: length of the vectors sent.

    Returns:
        Array of shape (rank, rank).
    """
    base = query_sum(np.zeros(rank))
    estimate: Floats = np.array(
        [(query_sum(reach * axis) - base) / (2 * reach) for axis in np.eye(rank)]
    )
    return (estimate + estimate.T) / 2


def build_sum_query(run: ScenarioRun, item: int) -> Callable[[Floats], Floats]:
    """Return a function that gives the noisy sum of an item at chosen factors, as in any round.

    Args:
        run: a run of scenario 2 that is set up, so that users have their shares of noise.
        item: index of the item.
    """
    pairs = np.flatnonzero(run.item_of_pair == item)
    group = run.item_of_pair[pairs]

    def query_sum(v: Floats) -> Floats:
        """Return the item's noisy sum at the factors v, array of shape (rank,)."""
        sent_factors = np.broadcast_to(v, (len(pairs), len(v)))
        masks = run.recommender.sample_masks(len(pairs))
        masked_total = run.third_party.add_answers(
            run.users.answer_gradients(pairs, sent_factors, run.raters[group], masks), group
        )
        sums = run.settings.fixed_point.decode(run.recommender.unmask(masked_total, masks, group))
        return np.asarray(sums[item])

    return query_sum


def compute_true_squares(run: ScenarioRun, item: int) -> Floats:
    """Compute A_j, the sum of u u' over the raters of an item, which no party should learn.

    Returns:
        Array of shape (rank, rank).
    """
    rater_factors = run.users.factors[run.item_of_pair == item]
    squares: Floats = rater_factors.T @ rater_factors
    return squares


def compute_longest_reach(run: ScenarioRun, item: int) -> float:
    """Return the largest length of v, a power of two, that every user's range check accepts.

    There is a margin. A gradient of a user is at most 2 |v| long, besides its linear term, since
    user factors have length at most 1.
    """
    fixed_point = run.settings.fixed_point
    # A quarter of what each user may add to a sum, less the linear term.
    headroom = fixed_point.max_sum / int(run.raters[item]) / 4 - float(
        np.abs(run.users.linear[run.item_of_pair == item]).max()
    )
    return float(2.0 ** np.floor(np.log2(max(headroom / 2, 1.0))))
