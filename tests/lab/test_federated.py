"""The federated flow: who sends what, what it costs, and what it learns."""

from __future__ import annotations

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.mechanisms.dpimf import Dpimf, Profiles
from dpmc_core.privacy import CELL, Publication, record_publications
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_lab.protocol.federated import SERVER, FederatedRun, Federation
from tests.protocol_helpers import list_received
from tests.ratings_helpers import clicks


def create_mechanism(epsilon: float = 1.0, **settings) -> Dpimf:
    built = registry.create("dpimf-optimal", epsilon=epsilon, **settings)
    assert isinstance(built, Dpimf)
    return built


def draw_ratings(users: int = 30, items: int = 20) -> Ratings:
    return clicks(np.random.default_rng(0).random((users, items)) < 0.4)


@pytest.mark.parametrize("profiles", list(Profiles))
def test_every_round_each_party_sends_and_receives_the_profiles(profiles: Profiles) -> None:
    flow = Federation(
        mechanism=create_mechanism(rank=4, profiles=profiles), parties=3, rounds=2, local=2
    )
    run = FederatedRun(flow, draw_ratings(), np.random.default_rng(1), watch=0)
    rounds, transcript, model = list(run.play()), run.transcript, run.build_model()
    exchanged = 20 if profiles is Profiles.ITEMS else 30
    assert rounds == [1, 2]
    assert transcript.total == (2 * 3 * 2, 2 * 3 * 2 * 8 * 4 * exchanged)
    assert len(list_received(transcript, SERVER)) == 6
    for message in transcript:
        assert message.payload["profiles"].shape == (exchanged, 4)
        assert SERVER in (message.sender, message.receiver)  # parties never meet
    sent = [m.payload["profiles"] for m in transcript if m.receiver == SERVER and m.round == 1]
    returned = [m.payload["profiles"] for m in transcript if m.sender == SERVER and m.round == 1]
    assert all(b == pytest.approx(np.mean(sent, axis=0)) for b in returned)
    assert model.left.shape == (30, 4)
    assert model.right.shape == (20, 4)


def test_what_a_party_sends_does_not_show_another_partys_users() -> None:
    """Changing a user of one party changes nothing that the others send in the first round."""
    ratings = draw_ratings()
    flow = Federation(mechanism=create_mechanism(rank=3), parties=3, rounds=1)
    parties = flow.split(ratings, np.random.default_rng(3))
    changed = ratings.select(ratings.users != parties[0][0])
    sent = []
    for data in (ratings, changed):
        run = FederatedRun(flow, data, np.random.default_rng(3), watch=0)
        assert list(run.play()) == [1]
        sent.append(
            {m.sender: m.payload["profiles"] for m in list_received(run.transcript, SERVER)}
        )
    assert not np.array_equal(sent[0]["party 1"], sent[1]["party 1"])
    for other_party in ("party 2", "party 3"):
        assert np.array_equal(sent[0][other_party], sent[1][other_party])


def record_run(flow: Federation, ratings: Ratings) -> list[Publication]:
    with record_publications() as publications:
        list(FederatedRun(flow, ratings, np.random.default_rng(3)).play())
    return publications


@pytest.mark.parametrize("id", ["dpimf-optimal", "dpimf-complementary"])
@pytest.mark.parametrize("profiles", list(Profiles))
def test_every_solve_of_every_party_makes_the_releases_of_the_card(id, profiles) -> None:
    built = registry.create(id, epsilon=1.0, rank=3, profiles=profiles)
    assert isinstance(built, Dpimf)
    flow = Federation(mechanism=built, parties=3, rounds=2, local=2)
    publications = record_run(flow, draw_ratings())
    expected = [release for _, release in built.guarantee(draw_ratings().public).releases] * (
        3 * 2 * 2
    )
    for p in publications:
        assert p.release in expected
        expected.remove(p.release)
    assert not expected


def test_what_a_party_sends_in_the_first_round_is_made_of_its_published_answers() -> None:
    """Given the same answers, other rows give the same profiles to the last bit."""
    ratings = draw_ratings()
    flow = Federation(mechanism=create_mechanism(rank=3), parties=3, rounds=1)
    answers = record_run(flow, ratings)
    sent = []
    for data in (ratings, ratings.select(np.arange(len(ratings)) % 3 > 0)):
        run = FederatedRun(flow, data, np.random.default_rng(3), watch=0)
        with record_publications(replayed=answers):
            list(run.play())
        sent.append([m.payload["profiles"] for m in list_received(run.transcript, SERVER)])
    assert all(map(np.array_equal, *sent))


def test_no_two_parties_rounds_or_cells_share_their_noise() -> None:
    """The sizes of all noise differ: two of some 1,500 independent numbers are within 1e-13 with a
    chance of 1e-7."""
    flow = Federation(mechanism=create_mechanism(rank=3), parties=3, rounds=2, local=2)
    publications = record_run(flow, draw_ratings())
    noise = np.concatenate(
        [((p.published - p.private) / p.release.scale).ravel() for p in publications]
    )
    assert np.diff(np.sort(np.abs(noise))).min() > 1e-13
    starts = [p.private for p in publications[::2][:3]]  # each party begins at random, by itself
    assert not np.intersect1d(starts[0], starts[1]).any()


def test_one_cell_of_a_party_moves_its_first_answer_as_far_as_stated_at_most() -> None:
    """Planted bug: a party that does not clip its factors."""
    ratings = draw_ratings()
    flow = Federation(mechanism=create_mechanism(rank=3), parties=3, rounds=1)
    before = record_run(flow, ratings)
    differences = []
    for k in range(0, len(ratings), 5):
        after = record_run(flow, ratings.select(np.arange(len(ratings)) != k))
        changes = [
            p.release.distance(p.private, q.private) for p, q in zip(before, after, strict=True)
        ]
        assert np.count_nonzero(changes) == 1  # the party of that user
        differences.append(max(changes))
    stated = before[0].release.sensitivity[CELL]
    assert 0.5 * stated <= max(differences) <= stated * (1 + 1e-9)


def test_the_budget_line_is_honest() -> None:
    public = PublicFacts(users=30, items=20, low=0, high=1)
    line = Federation(
        mechanism=create_mechanism(2.0), parties=5, rounds=100, local=20
    ).account_budget(public)
    assert line.claimed == 2.0
    assert line.solves == 2000
    assert line.cell == pytest.approx(2.0)
    assert line.cell_composed == pytest.approx(4000.0)
    assert line.user_composed == pytest.approx(80_000.0)
    assert not line.certified
    single = Federation(
        mechanism=create_mechanism(2.0, rounds=1), parties=5, rounds=1
    ).account_budget(public)
    assert single.certified
    guarantee = create_mechanism(2.0, rounds=1).guarantee(public)
    assert single.cell_composed == pytest.approx(guarantee.certified(CELL).epsilon)
    users = create_mechanism(2.0, rounds=1, profiles=Profiles.USERS)
    assert not Federation(mechanism=users, parties=5, rounds=1).account_budget(public).certified
    read_off = Federation(mechanism=create_mechanism(2.0, clip=None), rounds=1).account_budget(
        public
    )
    assert read_off.cell == float("inf")
    assert not read_off.certified


def test_parties_share_out_all_users_once() -> None:
    flow = Federation(mechanism=create_mechanism(), parties=7)
    parties = flow.split(draw_ratings(), np.random.default_rng(2))
    assert sorted(np.concatenate(parties).tolist()) == list(range(30))
    assert max(map(len, parties)) - min(map(len, parties)) <= 1
