"""Small runs of scenarios 2 and 3, their counts, and what a party of a protocol has received."""

import numpy as np

from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_lab.protocol import Traffic
from dpmc_lab.protocol.scenarios import DynamicUsers, ScenarioRun, StaticUsers

SCENARIOS = [StaticUsers, DynamicUsers]


def make_ratings(seed=0, users=12, items=8, density=0.6):
    rng = np.random.default_rng(seed)
    is_rated = rng.random((users, items)) < density
    is_rated[:, -1] = False  # nobody rates the last item
    is_rated[:, -2] = False
    is_rated[3, -2] = True  # one rater
    is_rated[:4, 0] = True
    is_rated[-1] = False  # and the last user rates nothing
    u, i = np.nonzero(is_rated)
    public = PublicFacts(users=users, items=items, low=1, high=5)
    return Ratings.build(u, i, rng.integers(1, 6, len(u)).astype(float), public)


def play_scenario(settings, ratings=None, seed=1, **options):
    ratings = make_ratings() if ratings is None else ratings
    run = ScenarioRun(settings, ratings, np.random.default_rng(seed), **options)
    rounds = list(run.play())
    return run, rounds


def assert_counts(run, expected):
    counted = {kind: sent for kind, sent in run.transcript.traffic.items() if sent.messages}
    assert counted == expected
    assert run.transcript.total == Traffic.total(expected.values())


def list_received(transcript, party):
    """The kept messages to a party."""
    return [message for message in transcript if message.receiver == party]


def compute_reference_items(run):
    """Item factors by the same phases and gradient steps in floating point, without messages.

    The noise, the attendance and the start are the run's; users refit theirs to these factors.
    """
    items = run.phases[0].models[0].copy()
    for k, phase in enumerate(run.phases):
        users = run.refit_users(run.mask_unpublished(items)) if k else phase.user_factors
        for pairs, updated in phase.steps:
            pair_factors, group = users[run.user_of_pair[pairs]], run.item_of_pair[pairs]
            errors = np.einsum("pd,pd->p", pair_factors, items[group]) - run.users.deviations[pairs]
            slope = np.zeros_like(items)
            np.add.at(slope, group, 2 * errors[:, None] * pair_factors)
            slope += phase.noise + 2 * phase.penalty * items
            items[updated] -= slope[updated] / (2 * (run.raters[updated] + phase.penalty))[:, None]
    return items
