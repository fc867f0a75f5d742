"""What the family reaches on real ratings: Jester part 1, scale 0..5, 1 % held out, delta 1e-6.

One split and one seed of each method.
"""

import pytest

from dpmc_core import experiment, registry
from dpmc_core.data import datasets
from dpmc_core.data.transforms import Rescale
from dpmc_core.model import Task
from dpmc_core.privacy import Calibration
from dpmc_core.problem import RandomShare, build_problem, create_generator

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def problem(shared_data):
    return build_problem(
        datasets.load(shared_data / "jester"),
        Task.RATINGS,
        steps=[Rescale(0, 5)],
        split=RandomShare(0.01),
        seed=1,
    )


def measure_rmse(problem, id, epsilon=1.0, **settings):
    mechanism = registry.create(id, epsilon=epsilon, delta=1e-6, **settings)
    if registry.adds_noise(type(mechanism)):
        certified = mechanism.guarantee(problem.train.public).certified()
        assert certified.epsilon <= epsilon
    rng = create_generator(1, experiment.format_run_key(mechanism, problem))
    *_, last = mechanism.fit(problem.train, rng)
    return experiment.measure_model(mechanism, last.model, problem, 1)["rmse"]


def test_private_frank_wolfe_beats_the_papers_constant_and_the_private_means(problem):
    tight = measure_rmse(problem, "private-frank-wolfe")
    assert tight <= 1.085
    assert tight < measure_rmse(problem, "private-frank-wolfe", calibration=Calibration.PAPER)
    assert tight < measure_rmse(problem, "private-item-mean") < measure_rmse(problem, "user-mean")


@pytest.mark.parametrize(("epsilon", "max_error"), [(1.0, 1.045), (0.5, 1.06)])
def test_dpals_reaches_its_mark_with_every_release_accounted(problem, epsilon, max_error):
    assert measure_rmse(problem, "dpals", epsilon) <= max_error
    assert measure_rmse(problem, "als") < max_error
