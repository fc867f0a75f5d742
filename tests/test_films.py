"""A list that a class is asked: what is sent of it, what its shares are worth, and what is told."""

import csv
import io
import json
import math

import numpy as np
import pytest

from benchmarks import intervals
from dpmc_core import experiment, registry
from dpmc_core.errors import InvalidSetting
from dpmc_core.lab.teach import films, room_view
from dpmc_core.lab.teach import room as rooms
from dpmc_core.lab.teach.room import Poll, Receipt, Room
from dpmc_core.privacy import witness
from dpmc_core.privacy.channels import flip_chance

LIST = films.listed(films.READY["Films"])
TEXTS = [film.text for film in LIST]
SEEDS = range(4)


def asked(total=4.0, expected=500):
    room = Room(["Tea?"], expected=expected)
    room.vote(films.ASKED, TEXTS, total)
    return room


def send(room, token, picks, **changed):
    view = room.view()
    told = {"room": view.id, "asking": view.ballot.number, "token": f"{token:032x}"} | changed
    return room.report(**told, picks=picks)


def filled(answers, total, seed):
    room, rng = asked(total), np.random.default_rng((seed, 1))
    for token, (places, bits) in enumerate(zip(*intervals.sent(answers, total, rng), strict=True)):
        send(room, token, [[int(p), int(b)] for p, b in zip(places, bits, strict=True)])
    return room


def test_a_list_is_read_line_by_line():
    found = films.listed("Alien; horror; 1979\n\n  Tea   time \nUp; 2009; animation")
    assert found == (
        films.Listed("Alien", "horror", 1979),
        films.Listed("Tea time"),
        films.Listed("Up", "animation", 2009),
    )
    assert films.listed("\n".join(one.text for one in found)) == found
    for ready in films.READY.values():
        assert rooms.PICKED <= len(films.listed(ready)) <= rooms.LIST


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "0"),
        ("one", "1"),
        ("one\nOne", "line 2"),
        ("\n".join(map(str, range(25))), "25"),
        ("x" * 61 + "\ny", "line 1"),
        ("; horror\ny", "line 1"),
    ],
)
def test_a_list_has_limits(text, why):
    with pytest.raises(InvalidSetting, match=why):
        films.listed(text)


@pytest.mark.parametrize(
    "picks",
    [
        None,
        [[0, 1]],
        [[0, 1], [0, 0]],
        [[0, 1], [10, 0]],
        [[0, 1], [-1, 0]],
        [[0, 2], [1, 0]],
        [[0, True], [1, 0]],
        [[0, 1], [1, 0], [2, 0]],
        [0, 1],
        {"0": 1},
    ],
)
def test_what_is_no_report_of_two_is_refused(picks):
    with pytest.raises(rooms.Malformed):
        send(asked(), 1, picks)


def test_a_phone_reports_once_and_nothing_is_drawn_again():
    room = asked()
    assert send(room, 1, [[0, 1], [3, 0]]) is Receipt.NEW
    assert send(room, 1, [[0, 1], [3, 0]]) is Receipt.AGAIN
    with pytest.raises(rooms.NotTaken):
        send(room, 1, [[0, 1], [3, 1]])
    with pytest.raises(rooms.NotTaken):
        send(room, 1, [[4, 1], [3, 0]])
    room.lock()
    with pytest.raises(rooms.NotTaken):
        send(room, 2, [[0, 1], [3, 0]])
    assert room.view().most == pytest.approx(4.0)


def test_what_phones_are_told_is_half_the_sum_for_each():
    told = asked(4.0).view().public()
    assert (told["epsilon"], told["below"]) == (4.0, rooms.lies_below(2.0))
    with pytest.raises(InvalidSetting):
        asked(21.0)
    with pytest.raises(InvalidSetting):
        asked(0.1)


def test_estimates_of_the_shares_are_right_on_average():
    """Off by at most 5 standard errors of ten: false alarm 1 in 170,000. Nor do they lean to one
    half, or away: read with the coin of the sum, they would rise by .79 of what is true."""
    rng = np.random.default_rng(0)
    true = np.linspace(0.1, 0.9, 10)
    answers = rng.random((900, 10)) < true
    off = [
        [poll.share for poll in filled(answers, 4.0, seed).view().ballot.polls()] for seed in SEEDS
    ] - answers.mean(axis=0)
    error = 0.5 / (1 - 2 * flip_chance(2.0)) / math.sqrt(180 * len(SEEDS))
    assert np.abs(off.mean(axis=0)).max() < 5 * error
    leaning = 5 * error / math.sqrt(np.sum((true - 0.5) ** 2))
    assert leaning < 0.16
    assert abs(np.polyfit(true, off.mean(axis=0), 1)[0]) < leaning


@pytest.mark.parametrize(
    ("phones", "reports", "epsilon"), [(30, 6, 2.0), (12, 5, 1.0), (40, 8, 10)]
)
def test_the_interval_of_the_class_counts_who_was_not_drawn(phones, reports, epsilon):
    """Exact coverage for every number of yes among all phones: at least 95 %."""
    assert 0.95 - 1e-9 <= intervals.of_drawn(reports, phones, epsilon) < 0.9999
    channel = rooms.coin(epsilon)
    found = [Poll(yes, reports, channel, among=phones).of_class for yes in range(reports + 1)]
    alone = [Poll(yes, reports, channel).of_class for yes in range(reports + 1)]
    assert any(
        one.high - one.low > own.high - own.low for one, own in zip(found, alone, strict=True)
    )


def test_thirty_phones_learn_little_of_ten_films():
    reports, own, people = films.worth(10, 4.0, 30)
    assert (reports, own, people) == (6, 0.5, 0.5)
    rough = 1.96 * 0.5 / math.sqrt(6) / (1 - 2 * flip_chance(2.0))
    assert rough == pytest.approx(
        0.525, abs=0.001
    )  # of the plain law: more than a half says nothing
    _, own, people = films.worth(10, 20.0, 30)
    poll = Poll(3, 6, rooms.coin(10.0), among=30)
    assert own == pytest.approx((poll.of_class.high - poll.of_class.low) / 2)
    assert 0.1 < own < people < 0.4  # six of thirty, and hardly a coin


def test_nothing_is_on_the_wall_before_it_is_locked_and_nobody_alone():
    room = asked()
    send(room, 1, [[0, 1], [1, 0]])
    send(room, 2, [[0, 1], [2, 0]])
    send(room, 3, [[0, 0], [1, 0]])
    view = room.view()
    assert all(row.found is None for row in room_view.of_ballot(view, view.ballot))
    assert films.told(view) == {}
    assert len(list(csv.reader(io.StringIO(room_view.export(view))))) == 1
    room.lock()
    view = room.view()
    rows = room_view.of_ballot(view, view.ballot)
    assert [row.found is not None for row in rows] == [True] + [False] * 9
    told = list(csv.DictReader(io.StringIO(room_view.export(view))))
    assert {line["question"] for line in told} == {f"{films.ASKED} {TEXTS[0]}"}
    assert {(line["reports"], line["yes"]) for line in told} == {("3", "2")}


def test_no_token_and_no_report_of_one_phone_leaves_the_server():
    room = asked()
    for token in range(5):
        send(room, token, [[token, 1], [token + 1, 0]])
    room.lock()
    view = room.view()
    out = [room_view.export(view), json.dumps(view.public() | films.told(view))]
    out += [str(row) for row in room_view.of_ballot(view, view.ballot)]
    assert not any(f"{token:032x}" in text for text in out for token in range(5))


def test_guesses_are_counted_as_they_are_under_another_name():
    room = Room(["Tea?"], expected=2)
    room.vote("How many?", ["12", "50", "88"], right=0)
    for token, place in enumerate((0, 0, 2)):
        assert send(room, token, [[place, 1]]) is Receipt.NEW
    with pytest.raises(rooms.Malformed):
        send(room, 9, [[0, 0]])
    room.lock()
    view = room.view()
    rows = room_view.of_ballot(view, view.ballot)
    assert [row.found.share for row in rows] == pytest.approx([2 / 3, 0, 1 / 3])
    assert "answer" in rows[0].note
    assert view.most == 0
    told = list(csv.DictReader(io.StringIO(room_view.export(view))))
    assert [(line["kind"], line["yes"], line["share"][:4]) for line in told] == [
        ("guess", "2", "0.66"),
        ("guess", "0", "0.0"),
        ("guess", "1", "0.33"),
    ]


def test_guesses_take_no_place_from_phones_and_have_an_end():
    room = Room(["Tea?"], expected=2)
    room.vote("How many?", ["12", "50"])
    for token in range(4):
        send(room, token, [[0, 1]])
    with pytest.raises(rooms.NotTaken, match="full"):
        send(room, 4, [[0, 1]])
    room.ask(0)
    view = room.view()
    for token in range(10, 14):
        assert room.report(view.id, 0, f"{token:032x}", 1) is Receipt.NEW


def test_questions_and_lists_take_turns():
    room = asked()
    first = room.view().ballot.number
    room.lock()
    room.press(0)
    assert room.view().ballot is None
    assert not room.view().locked
    with pytest.raises(rooms.NotTaken):
        room.report(room.view().id, first, f"{1:032x}", picks=[[0, 1], [1, 1]])
    room.show(first)
    assert room.view().ballot.number == first
    assert room.view().locked
    room.vote("Guess?", ["a", "b"])
    assert room.view().ballot.number == first - 1


def test_simulated_phones_answer_a_list_and_never_meet_phones():
    room = asked()
    room.pretend()
    room.lock()
    view = room.view()
    rows = room_view.of_ballot(view, view.ballot)
    assert {row.truth for row in rows} == {None}  # a secret until it is asked for
    assert view.ballot.sender is rooms.Sender.SIMULATED
    assert sum(poll.reports for poll in view.ballot.polls()) == rooms.PICKED * rooms.CLASS
    rows = room_view.of_ballot(view, view.ballot, told=True)
    assert [row.truth for row in rows] == list(view.ballot.truth)
    room.lock(False)
    send(room, 1, [[0, 1], [1, 1]])
    assert sum(poll.reports for poll in room.view().ballot.polls()) == rooms.PICKED


def test_simulated_phones_pass_the_coin_of_a_list():
    """What is reported rises with the true shares by 1 - 2f, .46 at half of 2: without the coin by
    1, and with that of the sum by .76. 160 classes of ten titles: 6 standard errors are .15. Each
    phone draws its own two titles."""
    room = Room(["Tea?"], rng=np.random.default_rng(0))
    true, told = [], []
    for _ in range(160):
        room.vote(films.ASKED, TEXTS, 2.0)
        room.pretend()
        ballot = room.view().ballot
        true += ballot.truth
        told += [poll.yes / poll.reports if poll.reports else math.nan for poll in ballot.polls()]
        assert len({tuple(sorted(p for p, _ in one)) for one in ballot.sent.values()}) > 10
    known = np.isfinite(told)
    slope = np.polyfit(np.array(true)[known], np.array(told)[known], 1)[0]
    assert slope == pytest.approx(1 - 2 * flip_chance(1.0), abs=0.15)


def test_a_title_is_of_the_class_that_was_asked():
    """Not of the phones that chance let report on it."""
    room = asked()
    for token in range(12):
        send(room, token, [[token % 3, 1], [3 + token % 2, 0]])
    room.lock()
    view = room.view()
    rows = room_view.of_ballot(view, view.ballot)
    assert [row.reports for row in rows[:5]] == [4, 4, 4, 6, 6]
    for row, yes in zip(rows[:5], (4, 4, 4, 0, 0), strict=True):
        channel = rooms.coin(2.0)
        assert row.found == Poll(yes, row.reports, channel, among=12).of_class
        assert row.wide == Poll(yes, row.reports, channel).of_people


def test_what_is_promised_of_a_list_is_of_all_that_a_phone_sends():
    ballot = asked(4.0).view().ballot
    together, _, guessed = films.promised(ballot)
    assert f"{math.ceil(10 * math.exp(4)) / 10}-fold" in together
    right = 100 / (1 + math.exp(-2))
    assert f" {right:.1f} times in 100" in guessed
    cost, _ = films.before(10, 4.0, 30)
    assert "at 2 each: 4 in all" in cost


@pytest.mark.parametrize("kinds", [True, False])
def test_what_phones_are_told_of_a_locked_list(kinds):
    """No share of fewer than three reports; and that a list is yours only where it is."""
    room = Room(["Tea?"])
    room.vote(films.ASKED, TEXTS if kinds else [film.title for film in LIST], 20.0)
    for token in range(3):
        send(room, token, [[0, 1], [1 + token % 2, 1]])
    room.lock()
    told = films.told(room.view())
    assert told["base"][0] > 0.9
    assert told["base"][1:] == (0.5,) * 9
    assert told["yours"] is kinds


# --- an attacker ----------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["anything", "the opposite"])
@pytest.mark.parametrize(("total", "known"), [(4.0, 0), (4.0, 10), (20.0, 10)])
def test_an_attacker_does_not_pick_out_a_classmate_beyond_the_bound(total, known, other):
    """Who knows which films a classmate saw, and who knows ten of her answers, against everything
    that is held: 100 classes of 30. False alarm by Hoeffding over classes: 1 in 10,000."""
    slack = math.sqrt(math.log(1e4) / (2 * 100))
    found = intervals.attacked(other, total, known, classes=100)
    assert found <= intervals.bound(total, 30, known) + slack
    if not known:  # every film is answered by everybody, and chance draws two
        assert found == pytest.approx(1 / 30, abs=slack)
    elif total == 4:  # the attack is no straw man: without the coin it finds many
        assert found > {"anything": 0.06, "the opposite": 0.4}[other]


def test_an_attacker_is_right_of_one_answer_as_often_as_is_said_and_no_more():
    """20,000 reports: 5 standard errors are 1.2 points. Half the noise would be seen: 98.2 %."""
    rng = np.random.default_rng(3)
    answers = rng.random((10_000, 10)) < 0.5
    places, bits = intervals.sent(answers, 4.0, rng)
    right = float(np.mean(bits == np.take_along_axis(answers, places, 1)))
    assert right == pytest.approx(rooms.attacker(rooms.coin(2.0)), abs=0.012)
    assert abs(right - rooms.attacker(rooms.coin(4.0))) > 0.05


# --- what is made of the shares -------------------------------------------------------------------


def test_half_of_a_list_is_foretold_from_the_other_as_by_least_squares():
    by, rng = films.halves(LIST), np.random.default_rng(0)
    assert sorted(by.shown + by.known) == list(range(len(LIST)))
    answers, base = rng.integers(0, 2, (3, 10)).astype(float), rng.random(10)
    genres = np.array([one.genre for one in LIST])
    years = np.array([one.year for one in LIST])
    shared = (genres[:, None] == genres) + 0.25 * np.exp(-np.abs(years[:, None] - years) / 10)
    known, shown = list(by.known), list(by.shown)
    for own, scores in zip(answers, by.scores(answers, base), strict=True):
        weights = np.linalg.solve(
            shared[np.ix_(known, known)] + 4 * np.eye(len(known)), (own - base)[known]
        )
        assert scores == pytest.approx(base[shown] + shared[np.ix_(shown, known)] @ weights)


def test_a_list_is_called_yours_only_where_it_wins():
    """Without kinds nothing can be foretold; with them, and alike shares, it can."""
    even, by = np.full(10, 0.5), films.halves(LIST)
    people = films.simulated(LIST, even, 3000, np.random.default_rng(1))
    assert films.judged(people, even, by).yours
    bare = films.listed("\n".join(one.title for one in LIST))
    people = films.simulated(bare, even, 3000, np.random.default_rng(1))
    assert not films.judged(people, even, films.halves(bare)).yours


def test_a_lead_that_chance_may_have_brought_is_none():
    """One of thirty people is ahead of the popular list, the others are not: nobody may say that
    it leads. All of them ahead: everybody may, whatever their answers alone do."""
    even, by = np.linspace(0.45, 0.55, 10), films.halves(LIST)
    people = films.simulated(LIST, even, 3000, np.random.default_rng(1))
    found = [films.judged(one[None].repeat(2, axis=0), even, by) for one in people[:300]]
    ahead = next(k for k, one in enumerate(found) if one.own > one.popular)
    level = next(k for k, one in enumerate(found) if one.own == one.popular)
    mixed = people[[ahead] + [level] * 29]
    hits = films.judged(mixed, even, by)
    assert hits.own > hits.popular
    assert not hits.yours
    assert films.judged(people[[ahead] * 30], even, by).yours
    same = next(k for k, one in enumerate(found) if one.own > one.popular and one.own <= one.alone)
    assert films.judged(people[[same] * 30], even, by).yours


def test_simulated_people_have_the_released_shares():
    """Off by at most 4 points: 8 standard errors, and what the bend of the law adds."""
    base = np.linspace(0.1, 0.9, 10)
    people = films.simulated(LIST, base, 30_000, np.random.default_rng(0))
    assert np.abs(people.mean(axis=0) - base).max() < 0.04


def test_another_sum_is_drawn_with_coins_of_its_own():
    """Two coupled reports of one answer would tell it where they differ: the simulated people's
    coins at half and at twice the sum have nothing to do with each other, and those of the class
    are not drawn at all. 600 answers: 5 standard errors are .2."""
    base = np.full(10, 0.5)
    lies = []
    for epsilon in (1.0, 2.0):
        problem = films.matrix(LIST, base, 300, (5,))
        method = registry.create("input-flip", epsilon=epsilon)
        with witness() as seen:
            experiment.run(method, problem, 0, with_baselines=False)
        lies.append((seen[0].published > 0) != (seen[0].private > 0))
        assert lies[-1].mean() == pytest.approx(flip_chance(epsilon), abs=0.1)
    assert abs(np.corrcoef(*lies)[0, 1]) < 0.2
    room = asked()
    send(room, 1, [[0, 1], [1, 0]])
    before = room.view().ballot.reports
    room.lock()
    films.matrix(films.of(room.view().ballot), films.shares(room.view().ballot), 300, (1,))
    assert room.view().ballot.reports == before


def test_the_matrix_is_completed_by_the_apps_own_estimator():
    base = np.linspace(0.2, 0.8, 10)
    problem = films.matrix(LIST, base, 300, (1,))
    assert len(problem.train) == 300 * rooms.PICKED
    assert len(problem.test) == 300 * (len(LIST) - rooms.PICKED)
    result = experiment.run(registry.create("input-flip", epsilon=2.0), problem, 0)
    text = films.completed(result, base)
    assert f"{100 * result.metrics['accuracy']:.1f} %" in text
    assert "own share" in text or "share alone" in text
