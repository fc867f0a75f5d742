"""The message flows of HXZ15: scenario 2 (the same users all along) and 3 (who is online changes).

HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.privacy import Guarantee, Unaccounted
from dpmc_core.protocol.distributed import Distributed, ProtocolAborted, Run
from dpmc_core.protocol.fixed_point import Words
from dpmc_core.protocol.wire import RECOMMENDER, THIRD_PARTY, USERS
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import setting

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SETUP, MODEL, ANSWER, SUM = "noise set-up", "item factors", "gradient", "sum"
HIDDEN_SHARE, HIDDEN_NOISE, ONLINE, RESTART = "hidden share", "hidden noise", "online", "restart"


@dataclass(frozen=True, kw_only=True)
class StaticUsers(Distributed):
    """Scenario 2: a third party adds up masked gradients of the same users in every round.

    Each user draws the own share of noise once, for the whole run. Were gradients not masked, two
    rounds of one user would differ by the raw difference of gradients: the difference attack.
    """

    scenario: ClassVar[str] = "2"
    title: ClassVar[str] = "untrusted recommender, static users"
    masks: bool = setting(True, "hide each gradient from the third party by a mask")

    def messages(self, run: Run) -> Iterator[int]:
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

    def _abort(self, run: Run, t: int, pair: int) -> None:
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
class DynamicUsers(Distributed):
    """Scenario 3: the noise is made once, hidden from all, and handed out again in every round.

    The recommender holds noise + alpha mod P, the third party alpha; whoever is online gets random
    pieces of it, so the noise in the sum is the same however many answer. Of a round only those
    online contribute gradients, as in a stochastic gradient step.

    That very sameness breaks the promise: the people summed change from round to round, the noise
    does not, so differences of sums give single gradients to the recommender, who knows whom each
    sum is over (`attacks.attack_attendance`). The only repair is fresh noise for each set of people
    that is summed up, every set paid for with epsilon; the paper has no such thing, nor has this.
    """

    scenario: ClassVar[str] = "3"
    title: ClassVar[str] = "untrusted recommender, users come and go"
    online: float = setting(
        1.0, "chance that a user is online, drawn for each round", above=0, at_most=1
    )

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

    def messages(self, run: Run) -> Iterator[int]:
        makers = self._make_noise(run)
        for t in range(1, self.iterations + 1):
            online = self._present(run, makers)
            run.wire.send(ONLINE, USERS, RECOMMENDER, {}, online, t)
            self._round(run, t, online)
            yield t

    def _make_noise(self, run: Run) -> Ints:
        """The set-up; returns the pairs of items whose noise could be made."""
        asked, leaving = self._present(run, np.arange(len(run.who))), self.leaves.at(0)
        size = run.items.shape
        run.third_party.secret = self.fixed.uniform(size, run.third_party.rng)
        run.recommender.noise = np.zeros(size, dtype=np.uint64)
        made = np.zeros(size[0], dtype=bool)
        while len(asked):
            group, betas = run.what[asked], run.recommender.mask(len(asked))
            mixing = _set_up(run, asked, {"mask": betas})
            shares = run.release.publish_shares(
                np.zeros((len(asked), self.rank)), group, mixing, run.rng
            )
            members = np.bincount(group, minlength=size[0])[group]
            words = self.fixed.encode(shares, 2 * members[:, None], "a user's share of noise")
            sent = self.fixed.reduce(words + betas)
            gone = np.isin(run.who[asked], sorted(leaving))
            answered = {"answer": sent[~gone]}
            run.wire.send(HIDDEN_SHARE, USERS, THIRD_PARTY, answered, asked[~gone], 0)
            kept = ~np.isin(group, group[gone])
            done = np.unique(group[kept])
            total = run.third_party.add(sent[kept], group[kept], size[0])
            total = self.fixed.reduce(total + run.third_party.secret)
            run.wire.send(HIDDEN_NOISE, THIRD_PARTY, RECOMMENDER, {"sum": total[done]}, done, 0)
            held = run.recommender.unmask(total, betas[kept], group[kept])
            run.recommender.noise[done] = held[done]
            np.add.at(run.noise, group[kept], shares[kept])
            made[done] = True
            # Where a share is missing, the users who stay draw theirs afresh.
            self._restart(run, np.unique(group[gone]), 0)
            asked, leaving = self._enough(run, asked[~kept & ~gone]), set()
        run.skipped = run.skipped._replace(unmade=run.active[~made[run.active]])
        run.active = np.flatnonzero(made)
        return np.flatnonzero(made[run.what])

    def _round(self, run: Run, t: int, online: Ints) -> None:
        asked, leaving = online, self.leaves.at(t)
        sums = np.zeros_like(run.items)
        summed: list[Ints] = []
        while len(asked):
            group = run.what[asked]
            items, masks = run.items[group], run.recommender.mask(len(asked))
            pieces = run.recommender.pieces(group)
            payload = {"v": items, "mask": masks, "piece": pieces}
            run.wire.send(MODEL, RECOMMENDER, USERS, payload, asked, t)
            answers = run.users.answer(asked, items, 2 * run.raters[group], masks, pieces)
            gone = np.isin(run.who[asked], sorted(leaving))
            answered = {"answer": answers[~gone]}
            run.wire.send(ANSWER, USERS, THIRD_PARTY, answered, asked[~gone], t)
            kept = ~np.isin(group, group[gone])
            done = np.unique(group[kept])
            found = self._sum(run, t, group[kept], answers[kept], masks[kept])
            sums[done] = found[done]
            summed.append(asked[kept])
            # The pieces of who left are lost: fresh masks and pieces for the rest of those items,
            # and the third party forgets what it got for them.
            self._restart(run, np.unique(group[gone]), t)
            asked, leaving = self._enough(run, asked[~kept & ~gone]), set()
        pairs = np.concatenate(summed) if summed else online
        run.finish_round(sums, pairs, np.unique(run.what[pairs]))

    def _sum(self, run: Run, t: int, group: Ints, answers: Words, masks: Words) -> Floats:
        """Sums without the secret go to the recommender, which takes its masks off."""
        assert run.third_party.secret is not None
        total = run.third_party.add(answers, group, len(run.items))
        total = self.fixed.reduce(total - run.third_party.secret)
        done = np.unique(group)
        run.wire.send(SUM, THIRD_PARTY, RECOMMENDER, {"sum": total[done]}, done, t)
        return self.fixed.decode(run.recommender.unmask(total, masks, group))

    def _restart(self, run: Run, items: Ints, t: int) -> None:
        missing = np.ones((len(items), 1))
        run.wire.send(RESTART, THIRD_PARTY, RECOMMENDER, {"missing": missing}, items, t)

    def _present(self, run: Run, pairs: Ints) -> Ints:
        """The pairs whose user is online now, of items with enough of them."""
        if self.online < 1:
            here = run.rng.random(run.public.users) < self.online
            pairs = pairs[here[run.who[pairs]]]
        return self._enough(run, pairs)

    def _enough(self, run: Run, pairs: Ints) -> Ints:
        """Without the items for which too few users are there to hide behind one another."""
        sizes = np.bincount(run.what[pairs], minlength=len(run.items))
        return pairs[sizes[run.what[pairs]] >= run.release.fewest]


def _set_up(run: Run, pairs: Ints, payload: dict[str, NDArray[Any]]) -> NDArray[np.float64] | None:
    """The recommender tells the users how many share the noise of an item, and Gaussian ones H."""
    group = run.what[pairs]
    sizes = np.bincount(group, minlength=len(run.items))[group]
    content: dict[str, NDArray[Any]] = {"users": sizes[:, None]}
    mixing = run.release.mixing(run.recommender.rng)
    if mixing is not None:
        content["H"] = mixing[group]
    run.wire.send(SETUP, RECOMMENDER, USERS, content | payload, pairs, 0)
    return mixing
