"""The list of faults to plant is up to date: each applies, and its tests exist.

What they find is for `benchmarks/mutants.py`, which takes its time.
"""

from __future__ import annotations

import ast
import bisect
import itertools
from collections import Counter
from functools import cache
from pathlib import Path

from tests.faults import MUTANTS, Mutant, Operator

ROOT = Path(__file__).resolve().parents[2]
MECHANISMS = {  # each with every operator
    *("one_bit", "collection", "factorization", "dpimf", "frank_wolfe", "per_user"),
    *("private_effects", "user_ranking", "local_ranking", "cleansing", "dpals", "dp_sgd"),
    *("protocol", "federated", "secure path", "kernel", "room"),
}

# What stands around them.
OTHER_FAMILIES = {
    *("reading", "command line", "verify", "release", "catalogue", "local", "baselines"),
    *(
        "own side",
        "item effects",
        "taste",
        "composition",
        "sampled sums",
        "rounding",
        "products",
        "phone",
    ),
    *("server", "class", "features", "partitions", "metrics", "experiment", "preparation", "store"),
    *("sweep", "answer", "views", "pages", "elsewhere", "drawn"),
}


@cache
def read_statements(path: str) -> tuple[str, list[int]]:
    """A file of the program, and where each statement of its outermost level begins."""
    source = (ROOT / path).read_text(encoding="utf-8")
    starts = [0]
    if path.endswith(".py"):
        lengths = (len(line) + 1 for line in source.split("\n"))
        ends = [*itertools.accumulate(lengths, initial=0)]
        for node in ast.parse(source).body:
            first = min([node, *getattr(node, "decorator_list", ())], key=lambda n: n.lineno)
            starts.append(ends[first.lineno - 1])
    return source, [*starts, len(source)]


def describe_problem(mutant: Mutant) -> str:
    """Why the fault cannot be planted, or nothing."""
    source, starts = read_statements(mutant.path)
    if (count := source.count(mutant.before)) != 1:
        return f"its text stands {count} times in {mutant.path}"
    if mutant.before == mutant.after or not mutant.tests:
        return "it changes nothing, or names no test"
    if mutant.path.endswith(".py"):
        try:
            # Only the statements around it: whole files take ten times as long.
            position = source.index(mutant.before)
            first = bisect.bisect_right(starts, position) - 1
            last = bisect.bisect_left(starts, position + len(mutant.before))
            text = source[starts[first] : starts[last]].replace(mutant.before, mutant.after)
            compile(text, mutant.file, "exec")
        except SyntaxError as error:
            return f"{mutant.path} is no program with it: {error}"
    return ""


def test_every_fault_applies_in_one_place_and_leaves_a_program() -> None:
    problems = {f"{m.family}: {m.name}": describe_problem(m) for m in MUTANTS}
    assert {name: problem for name, problem in problems.items() if problem} == {}


def test_every_family_has_every_operator_and_names_are_their_own() -> None:
    for family in MECHANISMS:
        assert {m.operator for m in MUTANTS if m.family == family} >= {*Operator} - {Operator.OTHER}
    assert {m.family for m in MUTANTS} == MECHANISMS | OTHER_FAMILIES
    assert max(Counter((m.family, m.name) for m in MUTANTS).values()) == 1


def test_the_tests_that_must_notice_exist() -> None:
    """Their functions; whether each parameter is among theirs, `benchmarks/mutants.py` sees."""
    expected = {test.partition("[")[0] for mutant in MUTANTS for test in mutant.tests}
    existing = set()
    for path in {test.partition("::")[0] for test in expected}:
        body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
        existing |= {f"{path}::{node.name}" for node in body if isinstance(node, ast.FunctionDef)}
    assert not expected - existing
