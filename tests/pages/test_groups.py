"""Mechanisms by what they promise: every one in its place, told apart by its card alone."""

import pytest

from dpmc_core import registry
from dpmc_core.privacy import Trust
from dpmc_core.ratings import PublicFacts
from dpmc_lab.views import cards, groups, measurements
from tests.page_helpers import open_page

PUBLIC_FACTS = PublicFacts(users=943, items=1682, low=1, high=5)


def find_picker(app):
    return app.radio(key="mechanism")


@pytest.mark.parametrize("clicks", [False, True])
def test_every_mechanism_has_one_place_told_by_its_card(clicks):
    ids = registry.list_suitable_mechanisms(clicks=clicks)
    guarantees, problems = groups.build_guarantees(ids, PUBLIC_FACTS)
    assert not problems
    grouped = groups.group_mechanisms(guarantees)
    assert sorted(c.id for g in grouped for c in g.choices) == sorted(ids)
    titles = [group.title for group in grouped]
    assert len(set(titles)) == len(titles)
    for group, choice in ((g, c) for g in grouped for c in g.choices):
        guarantee = guarantees[choice.id]
        refuted = measurements.is_refuted(measurements.find_default_measured_bound(choice.id))
        assert choice.state is cards.determine_claim_state(guarantee, refuted=refuted)
        assert (choice.state is cards.ClaimState.PROVED) == (
            cards.is_upheld(guarantee) and not refuted
        )
        assert choice.predicts == groups.TASK_LABELS[registry.get_mechanism(choice.id).task]
        assert ("even from the server" in group.trust) == (guarantee.trust is Trust.LOCAL)
        assert ("person" in group.protects) == guarantee.change.per_user
        assert choice.publishes in guarantee.publishes.value


def test_what_cannot_be_is_told_once_and_the_others_stay():
    huge = PublicFacts(users=10**7, items=10**7, low=1, high=5)
    guarantees, problems = groups.build_guarantees(registry.list_suitable_mechanisms(), huge)
    assert "input-flip" in guarantees
    assert "private-effects" not in guarantees
    assert len({str(problem) for problem in problems}) == len(problems)


# --- the picker -------------------------------------------------------------------------------


def test_a_link_may_name_it_by_id_by_name_or_as_it_once_did():
    name = registry.get_mechanism("output").name
    for requested in ("output", "OUTPUT", name, f"{name} · likes"):
        app = open_page("noise", data="movie-night", mechanism=requested)
        assert find_picker(app).value == "output"
        assert not app.warning
        labels = [p.proto.popover.label for p in app.get("popover")]
        assert any(name in label for label in labels)


def test_a_choice_that_other_data_lack_gives_way():
    app = open_page("noise", data="movie-night", mechanism="output")
    app.selectbox(key="data").set_value("bookshop-clicks").run()
    assert not app.exception
    assert find_picker(app).value in registry.list_suitable_mechanisms(clicks=True)
