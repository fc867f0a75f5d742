"""Matrix factorization without a trusted recommender: scenarios 2 and 3 of HXZ15.

HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015). In scenario 2 the same
users take part all along, in scenario 3 who is online changes. The paper's message also carries a
small fresh noise term per iteration. It is left out: the masks already hide single gradients, the
term is covered by no guarantee, and with it the result would no longer be that of scenario 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import BadRatings, DpmcError, InvalidSetting
from dpmc_core.mechanisms.factorization import DPMF, LinearTerm, NoiseForm
from dpmc_core.model import Factors
from dpmc_core.privacy import Guarantee, SharedLaplace, Shares, Trust, Unaccounted
from dpmc_core.privacy.shares import fewest_sharing
from dpmc_core.protocol.messages import (
    RECOMMENDER,
    THIRD_PARTY,
    USERS,
    FixedPoint,
    Traffic,
    Transcript,
    Wire,
    Words,
)
from dpmc_core.protocol.parties import Recommender, ThirdParty, Users
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import check_settings, same_setting, setting
from dpmc_core.solvers.least_squares_mf import Sides
from dpmc_core.solvers.rows import clip_dense_rows, with_offsets

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SETUP, MODEL, ANSWER, SUM = "noise set-up", "item factors", "gradient", "sum"
HIDDEN_SHARE, HIDDEN_NOISE, ONLINE, RESTART = "hidden share", "hidden noise", "online", "restart"


class ProtocolAborted(DpmcError):
    """A round that cannot go on without breaking its promise."""


@dataclass(frozen=True)
class Leaves:
    """Who leaves in the middle of which round, after receiving and before answering."""

    who: tuple[tuple[int, int], ...] = ()  # (round, user)

    def __str__(self) -> str:
        return ",".join(f"{round}:{user}" for round, user in self.who) or "nobody"

    @classmethod
    def parse(cls, text: str) -> Leaves:
        """ROUND:USER,... or 'nobody'. Raises InvalidSetting."""
        if text.strip().lower() in ("", "nobody"):
            return cls()
        try:
            pairs = [tuple(int(part) for part in word.split(":")) for word in text.split(",")]
        except ValueError:
            pairs = []
        if not pairs or any(len(p) != 2 or min(p) < 0 for p in pairs):
            raise InvalidSetting("leaves", "ROUND:USER[,ROUND:USER...] or nobody", text)
        return cls(tuple((p[0], p[1]) for p in pairs))

    def at(self, round: int) -> set[int]:
        """The users who leave in that round."""
        return {user for r, user in self.who if r == round}


class Skipped(NamedTuple):
    """Who and what takes no part, and why."""

    unrated: Ints  # items without a rating
    too_few: Ints  # items with too few raters to share noise or hide behind one another
    silent: Ints  # users without a rating
    unmade: Ints  # items for which too few users were there to make noise


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Public settings of a run, and how its messages go."""

    number: ClassVar[str]
    title: ClassVar[str]
    epsilon: float = same_setting(DPMF, "epsilon")
    rank: int = same_setting(DPMF, "rank")
    user_penalty: float = same_setting(DPMF, "user_penalty")
    item_penalty: float = same_setting(DPMF, "item_penalty")
    shrink: bool = same_setting(DPMF, "shrink")
    iterations: int = setting(20, "rounds of gradients", at_least=1, at_most=10_000)
    shares: Shares = setting(
        Shares.GAUSSIAN, "shares of the noise: Gaussian (published) or Gamma (hardened)"
    )
    colluding: int = setting(
        0, "users per item who may collude or vanish (Gamma shares)", at_least=0, at_most=10_000
    )
    modulus_bits: int = setting(48, "P = 2^bits", at_least=8, at_most=64)
    fraction_bits: int = setting(20, "numbers are multiples of 2^-bits", at_least=0, at_most=62)
    leaves: Leaves = setting(
        Leaves(), "users who leave mid-round: ROUND:USER,... or nobody", parse=Leaves.parse
    )

    def __post_init__(self) -> None:
        check_settings(self)
        self.shares.check_colluding(self.colluding)
        _ = self.fixed

    @property
    def fixed(self) -> FixedPoint:
        return FixedPoint(modulus_bits=self.modulus_bits, fraction_bits=self.fraction_bits)

    @property
    def mechanism(self) -> DPMF:
        """Scenario 1 in its coordinate form, which a run imitates."""
        return DPMF(
            epsilon=self.epsilon,
            rank=self.rank,
            user_penalty=self.user_penalty,
            item_penalty=self.item_penalty,
            shrink=self.shrink,
            noise=NoiseForm.COORDINATE,
        )

    def guarantee(self, public: PublicFacts) -> Guarantee:
        """Scenario 1's card with the parties' trust and what each of them still sees."""
        card = self.mechanism.guarantee(public)
        known = (
            "the recommender draws how large the noise is, so what it sees is Gaussian noise of"
            " known size: the claim holds for outsiders, not against the recommender"
        )
        hardened = "each user knows the own share only; one sum holds Laplace noise to all others"
        return dataclasses.replace(
            card,
            trust=Trust.AGGREGATOR,
            source=f"HXZ15, scenario {self.number}",
            releases=LinearTerm(self.release(public)),
            caveats=(
                known if self.shares is Shares.GAUSSIAN else hardened,
                "the recommender sees the noisy sum of every round with the same noise, and"
                " differences of them give A, the sum of u u' over the factors u of an item's"
                " raters",
                "recommender and third party must not collude",
            ),
        )

    def release(self, public: PublicFacts) -> SharedLaplace:
        """Scenario 1's Laplace release, drawn by the users."""
        own = self.mechanism.guarantee(public).releases.linear_term
        return SharedLaplace(
            query=own.query,
            shape=own.shape,
            sensitivity=own.sensitivity,
            scale=own.scale,
            shares=self.shares,
            colluding=self.colluding,
        )

    def rounds(self, run: ScenarioRun) -> Iterator[int]:
        """Exchange the messages, yielding the number of each finished round.

        Raises ProtocolAborted where a round cannot go on.
        """
        raise NotImplementedError

    def cost(self, raters: Ints) -> dict[str, Traffic]:
        """The traffic of a whole run by kind of message, everybody being there all the time.

        raters: users per item; items with too few of them cost nothing.
        """
        raise NotImplementedError

    @property
    def known_attendance(self) -> bool:
        """Whether everybody is there all the time, as `cost` has it."""
        return not self.leaves.who

    def _size(self, raters: Ints) -> tuple[int, int, int]:
        """(user-item pairs that take part, items, numbers per row of H)."""
        part = raters[raters >= fewest_sharing(self.colluding)]
        mixing = self.rank if self.shares is Shares.GAUSSIAN else 0
        return int(part.sum()), len(part), mixing


class ScenarioRun:
    """A run before its first message: the parties, the wire, and what none of them sees.

    user_factors: users x rank, frozen for the run. Left out, the recommender draws the first item
    factors without looking at any data and each user fits the own factors to them at home; these
    first factors are also where the gradient steps begin. watch: the item whose messages are kept.
    """

    def __init__(
        self,
        settings: Scenario,
        ratings: Ratings,
        rng: np.random.Generator,
        *,
        user_factors: Floats | None = None,
        watch: int | None = None,
    ) -> None:
        self.settings, self.public, fixed = settings, ratings.public, settings.fixed
        own, self.rng, masks, secrets = rng.spawn(4)
        mechanism = settings.mechanism
        self.sides: Sides = mechanism.sides(ratings)
        first = mechanism.first_items(ratings.public.items, own)
        if user_factors is None:
            user_factors = mechanism.fit_users(self.sides, first)
        elif user_factors.shape != (ratings.public.users, settings.rank):
            raise InvalidSetting(
                "shape of user_factors",
                f"({ratings.public.users}, {settings.rank})",
                user_factors.shape,
            )
        self.user_factors, _ = clip_dense_rows(user_factors, 1.0)
        self.release = settings.release(ratings.public)
        self.raters = raters = np.bincount(ratings.items, minlength=ratings.public.items)
        fewest = self.release.fewest
        self.skipped = Skipped(
            np.flatnonzero(raters == 0),
            np.flatnonzero((raters > 0) & (raters < fewest)),
            np.flatnonzero(np.diff(ratings.indptr) == 0),
            np.empty(0, dtype=np.int64),
        )
        part = raters[ratings.items] >= fewest
        if not part.any():
            raise BadRatings(
                f"every item has fewer than {fewest} raters, so nobody can hide: nothing is left to"
                " factorize"
            )
        for t, user in settings.leaves.who:
            if t > settings.iterations or user >= ratings.public.users:
                raise InvalidSetting(
                    "leaves",
                    f"ROUND:USER with rounds 0..{settings.iterations} and users"
                    f" 0..{ratings.public.users - 1}",
                    str(settings.leaves),
                )
        if watch is not None and (not 0 <= watch < len(raters) or raters[watch] < fewest):
            raise InvalidSetting("watched item", f"an item with at least {fewest} raters", watch)
        # user and item of each pair that takes part, and the items
        self.who = ratings.users[part].astype(np.int64)
        self.what = ratings.items[part].astype(np.int64)
        self.active: Ints = np.flatnonzero(raters >= fewest)
        ids = ratings.user_ids
        names = None if ids is None else [f"user {id}" for id in ids]
        self.wire = Wire(self.who, self.what, watch, names)
        deviations = ratings.values[part] - self.public.middle
        self.users = Users(self.user_factors[self.who], deviations, fixed)
        self.recommender = Recommender(
            first.copy(), raters, mechanism.noisy_penalty(ratings.public), fixed, masks
        )
        self.third_party = ThirdParty(fixed, secrets)
        self.noise = np.zeros_like(first)  # the noise the users' shares add up to
        self.steps: list[tuple[Ints, Ints]] = []  # of each round: pairs summed, items stepped
        self.sums: list[Floats] = []  # what the recommender reads off each round, items x d
        self.models: list[Floats] = [first]  # item factors before the round

    @property
    def transcript(self) -> Transcript:
        return self.wire.transcript

    @property
    def items(self) -> Floats:
        """The item factors as they stand; skipped items keep the first, data-free ones."""
        return self.recommender.items

    def play(self) -> Iterator[int]:
        """Exchange the messages, yielding the number of each finished round."""
        yield from self.settings.rounds(self)

    def model(self) -> Factors:
        """What users predict with: the published item factors and own factors refitted to them."""
        items = self.items.copy()
        items[np.setdiff1d(np.arange(len(items)), self.active)] = 0.0
        users = self.settings.mechanism.fit_users(self.sides, items)
        return with_offsets(users, items, self.public.middle)

    def finish_round(self, sums: Floats, pairs: Ints, where: Ints) -> None:
        """The recommender reads the sums and steps; the simulation remembers."""
        self.sums.append(sums)
        self.steps.append((pairs, where))
        self.recommender.step(sums[where], where)
        self.models.append(self.items.copy())


@dataclass(frozen=True, kw_only=True)
class StaticUsers(Scenario):
    """Scenario 2: a third party adds up masked gradients of the same users in every round.

    Each user draws the own share of noise once, for the whole run. Were gradients not masked, two
    rounds of one user would differ by the raw difference of gradients: the difference attack.
    """

    number: ClassVar[str] = "2"
    title: ClassVar[str] = "untrusted recommender, static users"
    masks: bool = setting(True, "hide each gradient from the third party by a mask")

    def cost(self, raters: Ints) -> dict[str, Traffic]:
        pairs, items, mixing = self._size(raters)
        t, d = self.iterations, self.rank
        return {
            SETUP: Traffic.on_wire(pairs, 1 + mixing),
            MODEL: Traffic.on_wire(t * pairs, d + d * self.masks),
            ANSWER: Traffic.on_wire(t * pairs, d),
            SUM: Traffic.on_wire(t * items, d),
        }

    def rounds(self, run: ScenarioRun) -> Iterator[int]:
        pairs = np.arange(len(run.who))
        mixing = _set_up(run, pairs, {})
        gone = np.isin(run.who, sorted(self.leaves.at(0)))
        if gone.any():
            self._abort(run, 0, int(pairs[gone][0]))
        noisy = run.release.publish_shares(run.users.linear, run.what, mixing, run.rng)
        np.add.at(run.noise, run.what, noisy - run.users.linear)
        run.users.linear = noisy
        count, addends = len(run.items), run.raters[run.what]
        for t in range(1, self.iterations + 1):
            items = run.items[run.what]
            payload: dict[str, NDArray[Any]] = {"v": items}
            hidden: tuple[Words, ...] = ()
            if self.masks:
                masks = run.recommender.mask(len(pairs))
                payload["mask"], hidden = masks, (masks,)
            run.wire.send(MODEL, RECOMMENDER, USERS, payload, pairs, t)
            answers = run.users.answer(pairs, items, addends, *hidden)
            gone = np.isin(run.who, sorted(self.leaves.at(t)))
            here = pairs[~gone]
            run.wire.send(ANSWER, USERS, THIRD_PARTY, {"answer": answers[here]}, here, t)
            if gone.any():
                self._abort(run, t, int(pairs[gone][0]))
            sums = run.third_party.add(answers, run.what, count)
            run.wire.send(SUM, THIRD_PARTY, RECOMMENDER, {"sum": sums[run.active]}, run.active, t)
            if self.masks:
                sums = run.recommender.unmask(sums, masks, run.what)
            run.finish_round(self.fixed.decode(sums), pairs, run.active)
            yield t

    def _abort(self, run: ScenarioRun, t: int, pair: int) -> None:
        """Without a share the noise is too small; with other shares it is another draw."""
        user, item = int(run.who[pair]), int(run.what[pair])
        k = int(run.raters[item])
        raise ProtocolAborted(
            (f"round {t} is aborted" if t else "the set-up is aborted")
            + f": {run.wire.name(user)} left before answering for item {item},"
            f" and with the own share of noise gone only ({k}-1)/{k} of its variance would be left;"
            " starting again with the users who stay draws fresh noise on the same ratings, "
            + (
                "which spends epsilon again"
                if t > 1 or (t and not self.masks)
                else "which costs nothing, for no sum has been sent"
            )
        )


@dataclass(frozen=True, kw_only=True)
class DynamicUsers(Scenario):
    """Scenario 3: the noise is made once, hidden from all, and handed out again in every round.

    The recommender holds noise + alpha mod P, the third party alpha; whoever is online gets random
    pieces of it, so the noise in the sum is the same however many answer. Of a round only those
    online contribute gradients, as in a stochastic gradient step.

    That very sameness breaks the promise: the people summed change from round to round, the noise
    does not, so differences of sums give single gradients to the recommender, who knows whom each
    sum is over (`attacks.attendance_attack`). The only repair is fresh noise for each set of people
    that is summed up, every set paid for with epsilon; the paper has no such thing, nor has this.
    """

    number: ClassVar[str] = "3"
    title: ClassVar[str] = "untrusted recommender, users come and go"
    online: float = setting(
        1.0, "chance that a user is online, drawn for each round", above=0, at_most=1
    )

    @property
    def known_attendance(self) -> bool:
        return super().known_attendance and self.online == 1

    def cost(self, raters: Ints) -> dict[str, Traffic]:
        pairs, items, mixing = self._size(raters)
        t, d = self.iterations, self.rank
        return {
            SETUP: Traffic.on_wire(pairs, 1 + d + mixing),
            HIDDEN_SHARE: Traffic.on_wire(pairs, d),
            HIDDEN_NOISE: Traffic.on_wire(items, d),
            ONLINE: Traffic.on_wire(t * pairs, 0),
            MODEL: Traffic.on_wire(t * pairs, 3 * d),
            ANSWER: Traffic.on_wire(t * pairs, d),
            SUM: Traffic.on_wire(t * items, d),
        }

    def guarantee(self, public: PublicFacts) -> Guarantee:
        """The shared card, with what the same noise under changing attendance gives away."""
        card = super().guarantee(public)
        single = Unaccounted(
            "gradients of single users",
            "differences of sums with different attendance cancel the noise",
        )
        within = (
            "noise hides a rating within one round only: the recommender knows who is there in each"
        )
        return dataclasses.replace(
            card, unaccounted=(*card.unaccounted, single), caveats=(*card.caveats, within)
        )

    def rounds(self, run: ScenarioRun) -> Iterator[int]:
        makers = self._make_noise(run)
        for t in range(1, self.iterations + 1):
            online = self._present(run, makers)
            run.wire.send(ONLINE, USERS, RECOMMENDER, {}, online, t)
            self._round(run, t, online)
            yield t

    def _make_noise(self, run: ScenarioRun) -> Ints:
        """The set-up; returns the pairs of items whose noise could be made."""
        present, size = self._present(run, np.arange(len(run.who))), run.items.shape
        run.third_party.secret = self.fixed.uniform(size, run.third_party.rng)
        run.recommender.noise = np.zeros(size, dtype=np.uint64)
        made = np.zeros(size[0], dtype=bool)
        for asked, gone, kept in self._attempts(run, present, 0):
            group, betas = run.what[asked], run.recommender.mask(len(asked))
            mixing = _set_up(run, asked, {"mask": betas})
            shares = run.release.publish_shares(
                np.zeros((len(asked), self.rank)), group, mixing, run.rng
            )
            members = np.bincount(group, minlength=size[0])[group]
            words = self.fixed.encode(shares, 2 * members[:, None], "a user's share of noise")
            sent = self.fixed.reduce(words + betas)
            answered = {"answer": sent[~gone]}
            run.wire.send(HIDDEN_SHARE, USERS, THIRD_PARTY, answered, asked[~gone], 0)
            done = np.unique(group[kept])
            total = run.third_party.add(sent[kept], group[kept], size[0])
            total = self.fixed.reduce(total + run.third_party.secret)
            run.wire.send(HIDDEN_NOISE, THIRD_PARTY, RECOMMENDER, {"sum": total[done]}, done, 0)
            held = run.recommender.unmask(total, betas[kept], group[kept])
            run.recommender.noise[done] = held[done]
            np.add.at(run.noise, group[kept], shares[kept])
            made[done] = True
        run.skipped = run.skipped._replace(unmade=run.active[~made[run.active]])
        run.active = np.flatnonzero(made)
        return np.flatnonzero(made[run.what])

    def _round(self, run: ScenarioRun, t: int, online: Ints) -> None:
        sums = np.zeros_like(run.items)
        summed: list[Ints] = []
        for asked, gone, kept in self._attempts(run, online, t):
            group = run.what[asked]
            items, masks = run.items[group], run.recommender.mask(len(asked))
            pieces = run.recommender.pieces(group)
            payload = {"v": items, "mask": masks, "piece": pieces}
            run.wire.send(MODEL, RECOMMENDER, USERS, payload, asked, t)
            answers = run.users.answer(asked, items, 2 * run.raters[group], masks, pieces)
            answered = {"answer": answers[~gone]}
            run.wire.send(ANSWER, USERS, THIRD_PARTY, answered, asked[~gone], t)
            done = np.unique(group[kept])
            found = self._sum(run, t, group[kept], answers[kept], masks[kept])
            sums[done] = found[done]
            summed.append(asked[kept])
        pairs = np.concatenate(summed) if summed else online
        run.finish_round(sums, pairs, np.unique(run.what[pairs]))

    def _sum(self, run: ScenarioRun, t: int, group: Ints, answers: Words, masks: Words) -> Floats:
        """Sums without the secret go to the recommender, which takes its masks off."""
        assert run.third_party.secret is not None
        total = run.third_party.add(answers, group, len(run.items))
        total = self.fixed.reduce(total - run.third_party.secret)
        done = np.unique(group)
        run.wire.send(SUM, THIRD_PARTY, RECOMMENDER, {"sum": total[done]}, done, t)
        return self.fixed.decode(run.recommender.unmask(total, masks, group))

    def _attempts(
        self, run: ScenarioRun, pairs: Ints, t: int
    ) -> Iterator[tuple[Ints, NDArray[np.bool_], NDArray[np.bool_]]]:
        """(pairs asked, which of them leave, which are of items that lose nobody), till all is in.

        Where somebody leaves, the third party forgets what it got for the item, and the users who
        stay are asked again: for fresh shares of noise, or with fresh masks and pieces of it.
        """
        leaving = self.leaves.at(t)
        while len(pairs):
            group, gone = run.what[pairs], np.isin(run.who[pairs], sorted(leaving))
            kept = ~np.isin(group, group[gone])
            yield pairs, gone, kept
            items = np.unique(group[gone])
            missing = {"missing": np.ones((len(items), 1))}
            run.wire.send(RESTART, THIRD_PARTY, RECOMMENDER, missing, items, t)
            pairs, leaving = self._enough(run, pairs[~kept & ~gone]), set()

    def _present(self, run: ScenarioRun, pairs: Ints) -> Ints:
        """The pairs whose user is online now, of items with enough of them."""
        if self.online < 1:
            here = run.rng.random(run.public.users) < self.online
            pairs = pairs[here[run.who[pairs]]]
        return self._enough(run, pairs)

    def _enough(self, run: ScenarioRun, pairs: Ints) -> Ints:
        """Without the items for which too few users are there to hide behind one another."""
        sizes = np.bincount(run.what[pairs], minlength=len(run.items))
        return pairs[sizes[run.what[pairs]] >= run.release.fewest]


def _set_up(run: ScenarioRun, pairs: Ints, payload: dict[str, NDArray[Any]]) -> Floats | None:
    """The recommender tells the users how many share the noise of an item, and Gaussian ones H."""
    group = run.what[pairs]
    sizes = np.bincount(group, minlength=len(run.items))[group]
    content: dict[str, NDArray[Any]] = {"users": sizes[:, None]}
    mixing = run.release.mixing(run.recommender.rng)
    if mixing is not None:
        content["H"] = mixing[group]
    run.wire.send(SETUP, RECOMMENDER, USERS, content | payload, pairs, 0)
    return mixing


def reference_items(run: ScenarioRun) -> Floats:
    """Scenario 1 by the same gradient steps in floating point: same noise, same attendance."""
    items = run.models[0].copy()
    penalty = run.recommender.penalty
    deviations = run.users.deviations
    for pairs, where in run.steps:
        own, group = run.users.factors[pairs], run.what[pairs]
        errors = np.einsum("pd,pd->p", own, items[group]) - deviations[pairs]
        slope = np.zeros_like(items)
        np.add.at(slope, group, 2 * errors[:, None] * own)
        slope += run.noise + 2 * penalty * items
        items[where] -= slope[where] / (2 * (run.raters[where] + penalty))[:, None]
    return items
