"""Faults of the protocols and the federated flow."""

from __future__ import annotations

from tests.faults.base import CLIP, OTHER, REUSED, SCALE, SEEDED, SKIPPED, UNIT, family_of, named

_VIEWS = "test_in_scenario_3_each_party_sees_uniform_numbers"
_OWN_STREAM = "test_what_a_party_draws_depends_on_its_own_generator_alone"
_ONE_RELEASE = "test_the_release_is_published_once_and_certified_as_scenario_1s"
_SUMS = "test_the_noise_in_the_sums_is_laplace_of_scenario_1s_scale"
_ADD_UP = "test_every_phase_is_one_release_and_they_add_up_to_the_claim"
_OF_PHASES = "test_the_noise_of_every_phase_has_the_scale_of_the_card"
_NO_TWO = "test_no_two_phases_share_noise_masks_or_secrets"

# fmt: off
PROTOCOL = (
    family_of(
        "protocol", "dpmc_lab/protocol/scenarios.py",
        ("scale", SCALE, "scale=term.scale,", "scale=0.97 * term.scale,", named("protocol", _SUMS)),
        ("scenario 2: no shares of noise", SKIPPED,
         "phase.release.publish_shares(run.users.linear, run.item_of_pair, mixing, run.rng)",
         "run.users.linear", named("protocol", f"{_ONE_RELEASE}[StaticUsers]")),
        ("scenario 3: no shares of noise", SKIPPED,
         "shares = phase.release.publish_shares(\n"
         "                np.zeros((len(queried), self.rank)), group, mixing, run.rng\n"
         "            )", "shares = np.zeros((len(queried), self.rank))",
         named("protocol", f"{_ONE_RELEASE}[DynamicUsers]")),
        ("a rating's bound is left out", UNIT, "sensitivity=term.sensitivity,", "sensitivity={},",
         named("protocol", _ONE_RELEASE)),
        ("single gradients are covered", UNIT, "unaccounted=(*base_guarantee.unaccounted, leak)",
         "unaccounted=base_guarantee.unaccounted", named("protocol",
         "test_the_card_of_scenario_3_says_that_single_gradients_are_covered_by_nothing")),
        ("user factors are not cut to the ball", CLIP,
         "user_factors, _ = clip_dense_rows(self.refit_users(items), 1.0)",
         "user_factors = self.refit_users(items)",
         named("protocol", "test_long_user_factors_move_no_linear_term_further_than_stated")),
        ("user factors are cut 3 % too wide", CLIP,
         "clip_dense_rows(self.refit_users(items), 1.0)",
         "clip_dense_rows(self.refit_users(items), 1.03)",
         named("protocol", "test_long_user_factors_move_no_linear_term_further_than_stated")),
        ("users share the recommender's generator", REUSED,
         "user_rng, self.rng, mask_rng, secret_rng = rng.spawn(4)",
         "user_rng, self.rng, _, secret_rng = rng.spawn(4)\n"
         "        mask_rng = self.rng",
         named("protocol", "test_the_parties_draw_from_generators_of_their_own")),
        ("the third party shares the recommender's generator", REUSED,
         "fixed_point, secret_rng\n"
         "        )", "fixed_point, mask_rng)",
         named("protocol", "test_the_parties_draw_from_generators_of_their_own")),
        ("the third party's secret is 0", OTHER,
         "self.fixed_point.sample_uniform(size,"
         " run.third_party.rng)", "np.zeros(size, dtype=np.uint64)", named("protocol", _VIEWS)),
        ("the secret is the start of the mask stream", OTHER,
         "self.fixed_point.sample_uniform(size, run.third_party.rng)",
         'self.fixed_point.sample_uniform(size, __import__("copy").deepcopy(run.recommender.rng))',
         named("protocol", f"{_OWN_STREAM}[DynamicUsers]")),
        ("the recommender draws the secret", OTHER,
         "self.fixed_point.sample_uniform(size, run.third_party.rng)",
         "self.fixed_point.sample_uniform(size, run.recommender.rng)",
         named("protocol", f"{_OWN_STREAM}[DynamicUsers]")),
        ("scenario 2: gradients without masks", OTHER,
         '{"mask": run.recommender.sample_masks(len(groups))} if',
         '{"mask": np.uint64(0) * run.recommender.sample_masks(len(groups))} if',
         named("protocol", "test_the_third_party_sees_uniform_numbers_whatever_the_ratings")),
        ("scenario 3: shares without masks", OTHER,
         "masks = run.recommender.sample_masks(len(queried))",
         "masks = np.uint64(0) * run.recommender.sample_masks(len(queried))",
         named("protocol", _VIEWS)),
        ("scenario 3: gradients without masks", OTHER,
         "{\n"
         '            "mask":'
         ' recommender.sample_masks(len(groups)),',
         '{"mask": np.uint64(0) * recommender.sample_masks(len(groups)),',
         named("protocol", _VIEWS)),
        ("every phase spends all of epsilon", SCALE,
         "dataclasses.replace(self.mechanism, epsilon=budget.epsilon) for budget in budgets",
         "self.mechanism for budget in budgets", named("phases", _ADD_UP)),
        ("later phases have half the noise", SCALE,
         "np.add.at(phase.noise, run.item_of_pair, noisy - run.users.linear)",
         "noisy = noisy - (noisy - run.users.linear) / 2 * (phase.n_prior_rounds > 0)\n"
         "        np.add.at(phase.noise, run.item_of_pair, noisy - run.users.linear)",
         named("phases", _OF_PHASES)),
        ("later phases have no noise", SKIPPED,
         "phase.release.publish_shares(run.users.linear, run.item_of_pair, mixing, run.rng)",
         "(\n"
         "            run.users.linear if phase.n_prior_rounds else\n"
         "            phase.release.publish_shares(\n"
         "                run.users.linear, run.item_of_pair, mixing, run.rng\n"
         "            )\n"
         "        )", named("phases", f"{_ADD_UP}[StaticUsers]")),
        ("scenario 2: the phases share their noise", REUSED,
         "phase.release.publish_shares(run.users.linear, run.item_of_pair, mixing, run.rng)",
         "phase.release.publish_shares(\n"
         "            run.users.linear, run.item_of_pair, mixing, np.random.default_rng(0)\n"
         "        )", named("phases", f"{_NO_TWO}[StaticUsers-Shares.GAMMA]")),
        ("scenario 3: the phases share their secret", OTHER,
         "run.third_party.secret = self.fixed_point.sample_uniform(size, run.third_party.rng)",
         "if not run.third_party.secret.any():\n"
         "            run.third_party.secret = self.fixed_point.sample_uniform(size, "
         "run.third_party.rng)",
         named("phases", "test_the_secret_of_the_third_party_is_another_in_every_phase")),
        ("fitted user factors count as public", UNIT,
         "unaccounted=_REFITTED + base_guarantee.unaccounted[1:]", "unaccounted=()",
         named("phases", _ADD_UP)),
        ("one picked user is enough to hide", OTHER, "if 0 < self.picked < min_raters:",
         "if 0 > self.picked:", named("phases", "test_fewer_picked_than_can_hide_are_refused")),
        ("scenario 3: the same shares in every run", REUSED,
         "np.zeros((len(queried), self.rank)), group, mixing, run.rng",
         "np.zeros((len(queried), self.rank)), group, mixing, np.random.default_rng(0)",
         named("protocol", f"{_SUMS}[DynamicUsers-Shares.GAMMA]")),
    )
    + family_of(
        "protocol", "privacy/noise.py",
        ("Gamma shares are short", SCALE, "return scale * (rng.standard_gamma(shape)",
         "return 0.97 * scale * (rng.standard_gamma(shape)",
         named("shares", "test_the_scale_of_the_sums_is_exact[Shares.GAMMA]")),
        ("Gaussian shares are short", SCALE, "return scale * np.sqrt(2 * mixing",
         "return 0.97 * scale * np.sqrt(2 * mixing",
         named("shares", "test_the_scale_of_the_sums_is_exact[Shares.GAUSSIAN]")),
    )
    + family_of(
        "protocol", "privacy/shares.py",
        ("colluding users keep nothing back", OTHER, "count - self.colluding, length",
         "count, length", named("shares",
         "test_hardened_shares_without_those_of_t_users_still_sum_to_laplace_noise")),
    )
    + family_of(
        "protocol", "dpmc_lab/protocol/__init__.py",
        ("sums may wrap around", CLIP, "out_of_range = ~(np.abs(array) < headroom)",
         "out_of_range = array != array",
         named("protocol", "test_sums_that_would_wrap_around_are_refused_never_silent")),
    )
)

_SOLVES = "test_every_solve_of_every_party_makes_the_releases_of_the_card"
_PARTIES = "test_no_two_parties_rounds_or_cells_share_their_noise"

FEDERATED = family_of(
    "federated", "dpmc_lab/protocol/federated.py",
    ("scale", SCALE, "self.releases = flow.mechanism.build_releases(matrix.shape[1])",
     "self.releases = flow.mechanism.build_releases(matrix.shape[1]).map_releases(\n"
     "            lambda r: dataclasses.replace(r, scale=0.97 * r.scale)\n"
     "        )", named("federated", _SOLVES)),
    ("the last solve is without noise", SKIPPED,
     "        assert profiles is not None\n        return profiles",
     "        profiles = solve_implicit_rows(self.columns, self.factors, "
     "self.mechanism.loss)\n"
     "        return profiles", named("federated",
     "test_what_a_party_sends_in_the_first_round_is_made_of_its_published_answers")),
    ("only the first local solve has noise", SKIPPED, "        for _ in range(local):\n",
     "        for _ in range(1):\n", named("federated", _SOLVES)),
    ("a cell's epsilon for a user's", UNIT,
     "user_composed=all_solves.certified(guarantee.change).epsilon,",
     "user_composed=all_solves.certified(CELL).epsilon,",
     named("federated", "test_the_budget_line_is_honest")),
    ("a party's factors are not clipped", CLIP,
     "profiles = self.mechanism.solve_private_profiles(",
     "profiles = __import__('dataclasses').replace(self.mechanism, clip=900.0, "
     "clip_l2=900.0).solve_private_profiles(", named("federated",
     "test_one_cell_of_a_party_moves_its_first_answer_as_far_as_stated_at_most")),
    ("all parties have one generator", REUSED,
     "rng.spawn(1)[0],\n"
     "                flow.mechanism,\n"
     "            )", "np.random.default_rng(1), flow.mechanism)", named("federated", _PARTIES)),
    ("the same noise for every party", REUSED, "self.columns, self.factors, releases, self.rng",
     f"self.columns, self.factors, releases, {SEEDED}", named("federated", _PARTIES)),
    ("local solves are not counted", OTHER, "solves = self.rounds * self.local",
     "solves = self.rounds", named("federated", "test_the_budget_line_is_honest")),
)
