"""The federated flow as a play on the Protocol page and on the command line."""

import dataclasses
import math

import pytest

from dpmc_core.mechanisms.dpimf import Profiles
from dpmc_core.privacy import USER_REPLACED
from dpmc_core.ratings import PublicFacts
from dpmc_data import datasets
from dpmc_lab.cli import main
from dpmc_lab.protocol.federated import build_federation
from dpmc_lab.views import protocol as views
from tests.page_helpers import find_button, open_page, read_markdown, unescape_markdown

SMALL = {"parties": 3, "rounds": 2, "local": 2}


@pytest.fixture(scope="module")
def cast_ratings():
    return views.select_busiest_corner(datasets.load("bookshop-clicks").ratings)


def build_flow(variant="dpimf-optimal", epsilon=1.0, **settings):
    return build_federation(variant, epsilon, **SMALL | settings)


@pytest.mark.parametrize("profiles", list(Profiles))
def test_counted_messages_and_bytes_agree_with_the_formula(cast_ratings, profiles):
    run = views.play_federation(build_flow(profiles=profiles, rank=5), cast_ratings).run
    assert run.transcript.total == run.flow.predict_traffic(cast_ratings.public)
    assert views.describe_traffic(run).endswith(": the same.")
    run.flow = dataclasses.replace(run.flow, rounds=3)
    assert views.describe_traffic(run).endswith("NOT the same.")


def test_the_budget_line_agrees_with_the_card_where_the_card_proves_it():
    public = PublicFacts(users=50, items=30, low=0, high=1, cap=7)
    single_round = build_flow(epsilon=0.5, rounds=1, local=1)
    rows = views.list_budget_rows(single_round.account_budget(public))
    guarantee = single_round.mechanism.guarantee(public)
    assert single_round.account_budget(public).change is guarantee.change is USER_REPLACED
    assert rows["proved for one user"] == pytest.approx(guarantee.certified().epsilon)
    assert guarantee.certified().epsilon == pytest.approx(7.0)  # 14 cells: 7 go, 7 come
    more_rounds = build_flow(epsilon=0.5)
    rows = views.list_budget_rows(more_rounds.account_budget(public))
    assert rows["one click, all solves"] == pytest.approx(2.0)
    assert rows["one user, all solves"] == pytest.approx(28.0)
    assert rows["proved for one user"] == math.inf
    assert not more_rounds.mechanism.guarantee(public).certified().finite
    explanation = " ".join(views.explain_missing_user_bound(more_rounds, public))
    assert "up to 14 times (a cap keeps k at 7)" in explanation
    assert "solves 4 times" in explanation
    table = views.tabulate_budget(more_rounds, public)
    assert [column[2] for column in table.values()][1:] == ["2", "1,000"]


def test_user_profiles_certify_nothing_and_the_page_says_why():
    public = PublicFacts(users=50, items=30, low=0, high=1, cap=7)
    single_round = build_flow(epsilon=0.5, rounds=1, local=1)
    for profiles, proved in ((Profiles.ITEMS, True), (Profiles.USERS, False)):
        settings = dataclasses.replace(single_round.mechanism, profiles=profiles)
        with_profiles = dataclasses.replace(single_round, mechanism=settings)
        rows = views.list_budget_rows(with_profiles.account_budget(public))
        assert math.isfinite(rows["proved for one user"]) is proved
        explanation = " ".join(views.explain_missing_user_bound(with_profiles, public))
        assert ("fits its item factors to all users' raw clicks" in explanation) is not proved


def test_the_page_steps_through_the_flow_and_tells_the_budget():
    app = open_page("protocol", data="bookshop-clicks", scenario="federated")
    assert "first of 24 messages" in read_markdown(app)
    find_button(app, "Next").click().run()
    find_button(app, "Next").click().run()
    assert app.header[0].value.startswith("Message 2 of 24 ")
    for key in ("budget", "sent"):
        app.session_state[key] = True
    app.run()
    assert "A user with k clicks changes k item profiles" in read_markdown(app)
    assert any("A formula gives" in unescape_markdown(c.value) for c in app.caption)
    assert any("bytes" in table.value.columns for table in app.dataframe)
    next(s for s in app.slider if s.label == "Rounds").set_value(1).run()
    next(s for s in app.slider if s.label == "Local solves in a round").set_value(1).run()
    assert "solves add up" not in read_markdown(app)
    assert app.header[0].value.startswith("Message 2 of 8 ")
    assert not app.exception


def run_command(capsys, *argv):
    status = main(["protocol", "federated", *argv])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--attack",), "--attack must be left out"),
        (("--mechanism", "dplcf"), "--mechanism must be one of dpimf-strawman"),
        (("--set", "colour=red"), "--set must be a setting of the flow or of dpimf-optimal"),
        (("--set", "parties=0"), "parties must be >= 1, got 0"),
        (("--set", "parties=9999"), "at most the 2500 users to share out"),
        (("--watch", "1200"), "--watch must be >= 0 and <= 1199"),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(capsys, argv, message):
    status, out, err = run_command(capsys, *argv)
    assert (status, out) == (1, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1
