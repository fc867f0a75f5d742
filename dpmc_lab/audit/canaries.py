"""Plant canaries in one run, and guess from what it publishes which of them were planted.

A canary is a change of one privacy unit, such as one extreme rating. A fair coin decides for each
whether it is planted. One run with the planted canaries is published. The coin of each canary is
then guessed from every published answer, by how much likelier the answer is with it than without.
The runs that compute this receive the published answers. They know everything except these coins
and the noise, including what a mechanism draws besides its noise. A rehearsal with coins and noise
of its own decides what canaries look like, how many there are and how many are guessed.

Canaries meet in an answer if some number of it depends on several of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.arrays import Bools, Floats, Ints, Rng
from dpmc_core.mechanisms.dpimf import Sampled
from dpmc_core.model import Mechanism
from dpmc_core.privacy import (
    CELL,
    RATING,
    ROW_VALUES,
    USER_REPLACED,
    Additive,
    Change,
    Gaussian,
    NormLaplace,
    Publication,
)
from dpmc_core.privacy.accounting import gaussian_epsilon
from dpmc_core.ratings import Ratings
from dpmc_core.stopping import check_cancelled
from dpmc_lab.audit.probe import History, RatingTable, record_history
from dpmc_lab.audit.report import (
    CONFIDENCE,
    FALSE_ALARM,
    AuditFinding,
    AuditSubject,
    Inapplicable,
)
from dpmc_lab.audit_bounds import canary_bound, count_right_guesses, gaussian_canary_bound
from dpmc_lab.measured import AuditMethod, Refuted

MAX_CANARIES = 1000  # canaries of a plan
_N_REHEARSED = 8  # canaries for which a rehearsal measures how far they move the answers
_CANARIES_PER_GUESS = 20  # canaries for each guess, where canaries meet and noise is Gaussian
_GUESS_SHARES = (1, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02)  # of the canaries, tried as guesses
_NO_ENTRY = -1e12  # stands for an entry that a sparse answer does not have
_GAUSSIAN = "Gaussian noise, as on the card"


@dataclass(frozen=True, eq=False)
class CanaryPlan:
    """Canaries in a table of ratings. Heads plants a canary, tails does not.

    Attributes:
        table: the ratings without canaries.
        heads, tails: arrays of shape (n_users, n_items), the ratings if every coin shows heads, and
            if every coin shows tails.
        owner: array of shape (n_users, n_items), index of the canary that a cell belongs to; -1 for
            none.
        count: number of canaries.
    """

    table: RatingTable
    heads: Floats
    tails: Floats
    owner: Ints
    count: int

    def build_ratings(self, coins: Bools) -> Ratings:
        """Return the ratings with each canary as its coin decides."""
        is_heads = np.append(coins, False)[self.owner]  # owner -1 selects the last, False
        return replace(self.table, values=np.where(is_heads, self.heads, self.tails)).to_ratings()

    def keep_first(self, count: int) -> CanaryPlan:
        """Return the plan with its first canaries only; other cells are as in the table."""
        is_dropped = self.owner >= count
        return replace(
            self,
            tails=np.where(is_dropped, self.table.values, self.tails),
            owner=np.where(is_dropped, -1, self.owner),
            count=min(count, self.count),
        )


def build_plans(table: RatingTable, change: Change, rng: Rng) -> list[CanaryPlan]:
    """Return several plans for canaries, all of which a rehearsal tries.

    A canary is a cell where the privacy unit is a rating or a cell, else a user's row. Rows are
    tried with one rating each and with as many as possible.

    Args:
        table: the ratings.
        change: what a canary changes, which is the privacy unit.
        rng: random numbers for the choice of cells and rows.
    """
    values = table.values
    low = table.extreme_values[0]
    high = table.extreme_values[-1]
    users, items = values.shape
    rated = ~np.isnan(values)
    busiest_user = int(rated.sum(axis=1).argmax())  # never changed, so that some ratings remain

    def build_plan(index: Any, rows: Any, absent_values: Any) -> CanaryPlan:
        """Plan canary k at the k-th cell, or row, of `index`.

        Heads puts the k-th of `rows` there, tails the k-th of `absent_values`.

        Args:
            index: the cells as arrays of rows and columns, or an array of rows.
            rows: rating, or row of ratings, of each canary.
            absent_values: what stands there without the canary.
        """
        heads = values.copy()
        tails = values.copy()
        owner = np.full(values.shape, -1)
        count = len(index[0])
        heads[index], tails[index] = rows, absent_values
        owner[index] = np.arange(count) if len(index) == 2 else np.arange(count)[:, None]
        return CanaryPlan(table, heads, tails, owner, count)

    if change in (RATING, CELL):
        if change is RATING:
            cells = np.argwhere(rated)
        elif table.max_row_ratings == items:
            cells = np.argwhere(np.ones_like(rated))
        else:  # under a cap there is one canary per user: the user may have no room for a second
            chosen_items = np.where(rated, rng.random(values.shape), -1.0).argmax(axis=1)
            cells = np.column_stack([np.arange(users), chosen_items])
        if change is CELL:
            cells = cells[cells[:, 0] != busiest_user]
        index = tuple(rng.permutation(cells)[:MAX_CANARIES].T)
        return [build_plan(index, high, low if change is RATING else np.nan)]
    canary_plans = []
    other_users = rng.permutation(np.delete(np.arange(users), busiest_user))[:MAX_CANARIES]
    is_swapped = change is ROW_VALUES or (change is USER_REPLACED and len(table.extreme_values) > 1)
    for fills_rows, chosen_users in ((False, other_users[:items]), (True, other_users)):
        n = len(chosen_users)
        if fills_rows:  # random ends on random items
            rows = rng.choice(table.extreme_values, (n, items))
            size = (
                table.max_row_ratings
                if len(table.extreme_values) > 1
                else max(1, min(table.max_row_ratings, items // 2))
            )
        else:  # one rating for each canary, of a different item
            rows = np.full((n, items), high)
            size = 0
        if change is ROW_VALUES:
            has_rating = rated[chosen_users]
        elif fills_rows:
            has_rating = rng.random((n, items)).argsort(axis=1) < size
        else:
            has_rating = np.eye(n, items, dtype=bool)
        rows = np.where(has_rating, rows, np.nan)
        canary_plans.append(
            build_plan((chosen_users,), rows, low + high - rows if is_swapped else np.nan)
        )
    return canary_plans


@dataclass(frozen=True, eq=False)
class Scorer:
    """A published run with canaries, and the runs that score them by replaying its answers.

    Attributes:
        mechanism: the audited mechanism.
        plan: the canaries.
        history: what the run published.
        seed: of the runs that score.
    """

    mechanism: Mechanism
    plan: CanaryPlan
    history: History
    seed: int

    def replay(self, coins: Bools) -> History:
        """Return what the queries give for other coins, after the same published answers."""
        check_cancelled()
        ratings = self.plan.build_ratings(coins)
        return record_history(self.mechanism, ratings, self.seed, self.history)[: len(self.history)]

    def replay_one(self, canary: int) -> History:
        """Return what the queries give if only one canary is present."""
        return self.replay(np.arange(self.plan.count) == canary)

    @cached_property
    def without_canaries(self) -> History:
        """Return what the queries give with no canary present."""
        return self.replay_one(-1)  # no canary has this index

    @cached_property
    def with_all_canaries(self) -> History:
        """Return what the queries give with all canaries present."""
        return self.replay(np.ones(self.plan.count, dtype=bool))

    @cached_property
    def answer_owners(self) -> dict[int, Ints]:
        """Return, for the answers in which canaries do not meet, the canary of each part.

        Every part of such an answer depends on at most one canary's coin. To find which, every
        canary has a number. For each binary digit, one run has the canaries whose number has this
        digit set, and another run has all the others. A part takes its value with all canaries
        where its canary is present, and its value without canaries otherwise, so it spells the
        number of its canary. A part that several canaries reach takes another value, or spells no
        number.

        Returns:
            By the index of the answer, the index of each part's canary; -1 if no canary moves it.
        """
        without = self.without_canaries
        with_all = self.with_all_canaries
        differs = [~_is_close(p, q) for p, q in zip(without, with_all, strict=True)]
        widths = [
            np.abs(_extract_private_values(p) - _extract_private_values(q))
            for p, q in zip(without, with_all, strict=True)
        ]
        owner_codes = {
            k: np.zeros(d.shape, dtype=np.int64) for k, d in enumerate(differs) if d.any()
        }
        codes = np.arange(1, self.plan.count + 1)
        for digit in range(int(self.plan.count).bit_length()):
            has_digit = (codes >> digit) & 1 == 1
            for complement in (False, True):
                if not owner_codes:
                    return {}
                replayed = self.replay(has_digit != complement)
                for k, codes_read in tuple(owner_codes.items()):
                    like_without = _is_close(without[k], replayed[k], widths[k])
                    like_with = _is_close(with_all[k], replayed[k], widths[k])
                    if not complement:  # in place, so owner_codes[k] changes
                        codes_read += like_with.astype(np.int64) << digit
                    digit_set = (codes_read >> digit) & 1 == 1
                    consistent = np.where(
                        differs[k],
                        (like_with ^ like_without) & (like_with == (digit_set ^ complement)),
                        like_with & like_without,
                    )
                    if not consistent.all():
                        del owner_codes[k]
        return {
            k: np.where(differs[k], codes_read - 1, -1)
            for k, codes_read in owner_codes.items()
            if np.isin(codes_read[differs[k]], codes).all()
        }

    def score_together(self, separate_answers: Collection[int]) -> Floats:
        """Return every canary's log likelihood ratio, from answers in which canaries do not meet.

        Args:
            separate_answers: indices of these answers.

        Returns:
            Array of shape (n_canaries,).
        """
        scores = np.zeros(self.plan.count)
        for k, owner in self.answer_owners.items():
            if k in separate_answers:
                log_ratios = _log_likelihood_ratio(
                    self.history[k],
                    self.with_all_canaries[k].private,
                    self.without_canaries[k].private,
                )
                has_owner = owner >= 0  # the other parts are moved by no canary, and say nothing
                scores += np.bincount(
                    owner[has_owner], log_ratios[has_owner], minlength=len(scores)
                )
        return scores

    def score_each(self) -> Iterator[float]:
        """Yield the log likelihood ratio of each canary, from one more run for each.

        For additive noise every other canary counts as half present, otherwise as absent.
        """
        for canary in range(self.plan.count):
            total = 0.0
            histories = (
                self.history,
                self.without_canaries,
                self.with_all_canaries,
                self.replay_one(canary),
            )
            for p, absent, present, single in zip(*histories, strict=True):
                with_canary = single.private
                without_canary = absent.private
                if isinstance(p.release, Additive):
                    midpoint = (absent.private + present.private) / 2
                    half_difference = (with_canary - without_canary) / 2
                    with_canary = midpoint + half_difference
                    without_canary = midpoint - half_difference
                total += float(_log_likelihood_ratio(p, with_canary, without_canary).sum())
            yield total

    def estimate_power(self, separate_answers: Collection[int]) -> float:
        """Estimate how far planting a canary moves its score, in standard deviations.

        The score of a canary is the inner product of the answers with the difference that it makes.
        Planting moves it by the squared norm of this difference. Its variance is the same norm by
        the noise, plus a quarter of the squared overlap with each other canary by their coins.

        Args:
            separate_answers: indices of the answers in which canaries do not meet; if empty, all
                answers are used, and other canaries add to the noise.
        """
        count = min(_N_REHEARSED, self.plan.count)
        differences = [
            _standardise_differences(
                self.without_canaries, self.replay_one(canary), separate_answers
            )
            for canary in range(count)
        ]
        inner_products = np.array([[float(a @ b) for a in differences] for b in differences])
        squared_norms = np.diag(inner_products)
        mean_squared_overlap = (
            np.square(inner_products).sum() - np.square(squared_norms).sum()
        ) / max(1, count * (count - 1))
        score_std = np.sqrt(
            squared_norms
            # A fair coin times a number b has variance b^2 / 4.
            + 0.25 * mean_squared_overlap * (0 if separate_answers else self.plan.count - 1)
            + 1e-300  # canaries that move nothing have power 0
        )
        return float(np.median(squared_norms / score_std))


class Rehearsal(NamedTuple):
    """The decisions of a rehearsal.

    Attributes:
        plan: the canaries.
        separate_answers: indices of the answers in which canaries do not meet; if empty, each
            canary takes a run to score.
        guesses: number of canaries to guess.
    """

    plan: CanaryPlan
    separate_answers: Collection[int]
    guesses: int


class CanaryAuditor(AuditSubject):
    """Auditor that plants canaries."""

    def audit(
        self, ratings: Ratings, runs: int, rehearsal: Rehearsal | None = None
    ) -> Iterator[AuditFinding]:
        """Audit one run with canaries, at most `runs` of them where each takes a run to score.

        Args:
            ratings: the prepared ratings.
            runs: maximum number of runs that score.
            rehearsal: of the same mechanism and ratings, with another seed (default: a new one).
        """
        plan, separate_answers, guesses = rehearsal or self.rehearse(ratings, runs)
        # 5 is of the coins alone: no run of the mechanism draws the same numbers.
        coins = np.random.default_rng([self.seed, 5]).random(plan.count) < 0.5
        # The scoring runs make the same random choices as the published one, since an attacker is
        # assumed to know them, except where these choices are a part of the noise.
        scoring_seed = self.seed + (4 if isinstance(self.mechanism, Sampled) else 2)
        scorer = self._publish_run(plan, coins, self.seed + 2, scoring_seed)
        finding = AuditFinding(
            method=AuditMethod.CANARIES,
            valid=False,
            epsilon=0.0,
            delta=self.certified.delta,
            confidence=CONFIDENCE,
            done=0,
            total=plan.count,
            refuted=Refuted.NOTHING,
            canaries=plan.count,
            guesses=guesses,
            given=_GAUSSIAN if self._is_gaussian else "",
        )
        scores = np.zeros(plan.count)
        if separate_answers:
            scores = scorer.score_together(separate_answers)
        else:
            for canary, score in enumerate(scorer.score_each()):
                scores[canary] = score
                yield replace(finding, done=canary + 1)
        right = count_right_guesses(scores, coins, guesses)
        yield replace(
            finding,
            valid=True,
            epsilon=self._bound_epsilon(plan.count, guesses, right),
            done=plan.count,
            refuted=self.find_contradiction(
                self._bound_epsilon(plan.count, guesses, right, 1 - FALSE_ALARM)
            ),
            right=right,
        )

    def rehearse(self, ratings: Ratings, runs: int) -> Rehearsal:
        """Decide which canaries promise most, how they are scored, and how many to guess.

        Args:
            ratings: the prepared ratings.
            runs: maximum number of canaries where each takes a run to score.

        Raises:
            Inapplicable: all ratings are equal, so no value can change.
        """
        table = RatingTable.from_ratings(ratings)
        rng = np.random.default_rng([self.seed, 2])
        if self.change in (RATING, ROW_VALUES) and len(table.extreme_values) == 1:
            raise Inapplicable("all ratings are alike, so no value can change")
        candidates = []
        for plan in build_plans(table, self.change, rng):
            coins = rng.random(plan.count) < 0.5
            # Another seed than those of the audited run and of its scoring runs.
            scorer = self._publish_run(plan, coins, self.seed + 3, self.seed + 3)
            separate_answers = scorer.answer_owners.keys()
            if not separate_answers:
                scorer = replace(scorer, plan=plan.keep_first(runs))
            candidates.append((scorer.estimate_power(separate_answers), scorer, separate_answers))
        _, scorer, separate_answers = max(candidates, key=lambda candidate: candidate[0])
        return Rehearsal(
            scorer.plan, separate_answers, self._choose_guesses(scorer, separate_answers)
        )

    def _publish_run(self, plan: CanaryPlan, coins: Bools, seed: int, scoring_seed: int) -> Scorer:
        """Publish a run with these coins; `scoring_seed` is the seed of the runs that score.

        Args:
            plan: the canaries.
            coins: array of shape (n_canaries,), whether each is planted.
            seed: of the published run.
            scoring_seed: of the runs that score.
        """
        return Scorer(
            self.mechanism,
            plan,
            record_history(self.mechanism, plan.build_ratings(coins), seed),
            scoring_seed,
        )

    def _choose_guesses(self, scorer: Scorer, separate_answers: Collection[int]) -> int:
        """Choose how many canaries to guess: the number that promises the best bound.

        A guess with log likelihood ratio s is right with probability 1/(1 + e^-|s|) where canaries
        do not meet. Otherwise only the surest few are guessed, or all if the guarantee is pure.
        """
        count = scorer.plan.count
        if not separate_answers:
            is_pure = self.guarantee.loss(self.change).mu == 0 and self.certified.delta == 0
            # Fewer than 50 guesses refute little, however sure they are.
            return count if is_pure else max(min(count, 50), count // _CANARIES_PER_GUESS)
        log_ratios = np.sort(np.abs(scorer.score_together(separate_answers)))[::-1]
        expected_right = np.cumsum(1 / (1 + np.exp(-np.minimum(log_ratios, 700.0))))
        guess_counts = {max(1, int(share * count)) for share in _GUESS_SHARES}
        return max(
            guess_counts,
            key=lambda k: (self._bound_epsilon(count, k, int(expected_right[k - 1])), k),
        )

    def _bound_epsilon(
        self, canaries: int, guesses: int, right: int, confidence: float = CONFIDENCE
    ) -> float:
        """Return the lower bound on epsilon, at the certified delta, that the guesses prove.

        Args:
            canaries: how many canaries there are, planted or not.
            guesses: how many of them are guessed.
            right: how many guesses are right.
            confidence: the confidence of the bound.
        """
        delta = self.certified.delta
        if self._is_gaussian:
            return gaussian_epsilon(
                gaussian_canary_bound(canaries, guesses, right, confidence=confidence), delta
            )
        return canary_bound(canaries, guesses, right, delta=delta, confidence=confidence)

    @property
    def _is_gaussian(self) -> bool:
        """Return whether all releases are Gaussian at delta > 0, which allows a sharper bound."""
        return self.certified.delta > 0 and all(
            isinstance(release, Gaussian) for _, release in self.guarantee.releases
        )


def _extract_private_values(publication: Publication) -> Floats:
    """Return a publication's answer before noise as an array.

    A sparse matrix becomes a full one, with _NO_ENTRY where it has no entry.
    """
    private = publication.private
    if isinstance(private, np.ndarray):
        return private.astype(float)
    pattern = private.astype(bool)
    pattern.data[:] = True  # stored zeros are entries too
    return np.where(pattern.toarray(), private.toarray(), _NO_ENTRY)


def _is_close(p: Publication, q: Publication, width: Floats | float = 0.0) -> Any:
    """Return which parts of two answers are equal up to rounding.

    A part is a number, or a row where the noise has a direction (`NormLaplace`).

    Args:
        p, q: the answers.
        width: how far canaries move each number.
    """
    first = _extract_private_values(p)
    second = _extract_private_values(q)
    rounding = np.maximum(1e-9 * (1 + np.abs(first)), 1e-6 * np.asarray(width))
    close: Any = np.abs(first - second) <= rounding
    return close.all(axis=-1) if isinstance(p.release, NormLaplace) else close


def _log_likelihood_ratio(p: Publication, with_value: Any, without_value: Any) -> Floats:
    """Return, for each part of an answer, the log ratio of its likelihoods at two private values.

    Args:
        p: the publication with the answer.
        with_value, without_value: the private values to compare.
    """
    logs: Floats = p.release.log_likelihood(p.published, with_value)
    return logs - p.release.log_likelihood(p.published, without_value)


def _standardise_differences(
    without: History, replayed: History, separate_answers: Collection[int]
) -> Floats:
    """Return how far each number of the answers moves between two replays, in noise scales.

    Where noise is not additive, a number that moves counts 1.

    Args:
        without, replayed: the queries without a canary and with it.
        separate_answers: indices of the answers to use; if empty, all.

    Returns:
        Array with one entry for each number of the used answers.
    """
    differences = []
    for k, (p, q) in enumerate(zip(without, replayed, strict=True)):
        if not separate_answers or k in separate_answers:
            difference = (_extract_private_values(q) - _extract_private_values(p)).ravel()
            release = p.release
            is_changed = (difference != 0).astype(float)
            differences.append(
                difference / release.scale if isinstance(release, Additive) else is_changed
            )
    return np.concatenate(differences)
