"""A released file is held against its own card: what was written passes, what was edited does not.

No test here can raise a false alarm but by a chance below 2^-40.
"""

import dataclasses
import functools
import json
import shutil
import subprocess
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("opendp", reason="needs the extra 'release'")

from dpmc_core import registry
from dpmc_core.errors import CannotRelease, DpmcError, InvalidSetting
from dpmc_core.preparation import UseItemFeatures
from dpmc_core.privacy import Publishes, Trust
from dpmc_core.ratings import Catalogue, ColumnRoles, Origin, Ratings
from dpmc_core.solvers.factorization import minimise_in_ball
from dpmc_data import public_sets
from dpmc_data.features import attach_features
from dpmc_lab.study import release
from dpmc_lab.study.release import (
    build_deployment_card,
    check_releasable,
    export_release,
    write_release,
)
from dpmc_lab.study.verify import (
    NotVerified,
    list_unverifiable,
    verify_release,
    verify_signature,
)
from tests.forgeries import (
    BASES,
    forge_all,
    list_leaves,
    make_features,
    make_release,
    replace_array,
    replace_at_path,
)
from tests.release_helpers import (
    ITEMS,
    RELEASED,
    USERS,
    create_mechanism,
    format_case,
    load_release,
    make_ratings,
    save_release,
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of each case, made when first asked for."""
    folder, released = tmp_path_factory.mktemp("released"), {}

    def file(case):
        name = format_case(case)
        if name not in released:
            mechanism = create_mechanism(*case)
            path = folder / f"{len(released)}.npz"
            write_release(export_release(mechanism, make_ratings(mechanism.task)), path)
            released[name] = path
        return released[name]

    return file


cases = pytest.mark.parametrize("case", RELEASED, ids=format_case)


@cases
def test_every_release_is_accepted(files, case):
    verification = verify_release(files(case))
    assert verification.notes == ()
    assert verification.mechanism == create_mechanism(*case)
    assert verification.guarantee.certified().finite
    # A row that is a user's own tells how many users there are.
    holds_rows = {"users", "left", "matrix"} & set(verification.release_card["arrays"])
    caveats = " ".join(list_unverifiable(verification))
    assert ("of whom no row here is one's own" in caveats) == (not holds_rows)


def test_what_can_be_released_is_among_them():
    refused = {
        "modified-laplace",
        "dpmf",
        "dpmf-clicks",
        *(id for id in registry.MECHANISMS if "dpimf" in id),
    }
    private = {id for id in registry.MECHANISMS if registry.adds_noise(registry.get_mechanism(id))}
    assert len(private - refused) > 20
    assert private - refused <= {id for id, settings in RELEASED if not settings}
    assert {"dpmf", "dpmf-clicks", "dpimf-optimal"} <= {id for id, settings in RELEASED if settings}


def edit_card(release_card, path):
    """Return the card with one value a little different."""
    old = functools.reduce(lambda node, key: node[key], path, release_card)
    if isinstance(old, bool):
        new = not old
    elif isinstance(old, int):
        new = old + 1
    elif isinstance(old, float):
        new = old * (1 + 1e-6) + (1e-9 if old == 0 else 0)
    else:
        new = f"{old or ''}x"
    return replace_at_path(release_card, path, new)


@pytest.fixture
def refuse(tmp_path):
    """Save a card and arrays, and return the printable reason for which they are refused."""

    def refuse(release_card, arrays, match=None, **options):
        save_release(tmp_path / "edited.npz", release_card, arrays, **options)
        with pytest.raises(NotVerified, match=match) as error:
            verify_release(tmp_path / "edited.npz")
        assert str(error.value).isprintable()
        return error.value

    return refuse


# What follows from the rest of the card, so an edit is named even where the digest is made anew.
DERIVED = ("guarantee", "releases", "task", "randomness", "rows")


def list_derived_paths(release_card, arrays, guarantee):
    """Return paths to all values of a card that follow from others."""
    paths = [path for path, _ in list_leaves(release_card) if path[0] in DERIVED]
    paths += [("arrays", n, k) for n in arrays for k in ("type", "sha256", "what")]
    paths += [("predictions",)]
    paths += [("arrays", n, "shape", 0) for n, a in arrays.items() if a.ndim]
    shapes = [release.shape for _, release in guarantee.releases]
    if "symbols" not in arrays and (None,) in shapes:  # the number of ratings is public there
        paths = [path for path in paths if path[-1] != "coordinates"]
    return [*paths, ("catalogue", "condition")]


def names_field(path, faults):
    """Return whether some fault names the field at a path."""
    field = [str(key) for key in path if not isinstance(key, int)]
    return any(all(name in text for name in field) for text in faults)


@pytest.mark.slow_unless_planted
@cases
def test_an_edit_of_what_follows_names_the_field(files, case, refuse):
    """All at once: each field is held against what the settings say, whatever the others are."""
    release_card, arrays = load_release(files(case))
    paths = list_derived_paths(release_card, arrays, verify_release(files(case)).guarantee)
    assert len(paths) > 15
    faults = refuse(functools.reduce(edit_card, paths, release_card), arrays).faults
    assert not [path for path in paths if not names_field(path, faults)]


@pytest.mark.parametrize(
    "case", [("private-item-mean", {}), ("input-flip", {}), ("output", {})], ids=format_case
)
def test_one_edit_is_enough(files, case, refuse):
    release_card, arrays = load_release(files(case))
    for path in list_derived_paths(release_card, arrays, verify_release(files(case)).guarantee):
        assert names_field(path, refuse(edit_card(release_card, path), arrays).faults), path


@pytest.mark.parametrize("case", [("private-item-mean", {}), ("dplcf", {})], ids=format_case)
def test_no_edit_of_a_card_goes_unnoticed(files, case, refuse):
    release_card, arrays = load_release(files(case))
    for path, _ in list_leaves(release_card):
        refuse(edit_card(release_card, path), arrays, sealed=False)
    for name in release_card:
        less = {key: value for key, value in release_card.items() if key != name}
        if name == "date":  # a card of before has none
            refuse(less, arrays, "sha256", sealed=False)
        else:
            refuse(less, arrays, name, sealed=name != "sha256")


@pytest.mark.slow_unless_planted
@cases
def test_an_edit_of_an_array_names_it(files, case, refuse):
    """A value anywhere shows in the digest; what cannot be at all shows without it."""
    release_card, arrays = load_release(files(case))
    guarantee = verify_release(files(case)).guarantee
    for name, array in arrays.items():
        changed_array, out_of_range, beyond = array.copy(), array.copy(), array.copy()
        changed_array.flat[-1] += 1
        refuse(release_card, arrays | {name: changed_array}, rf"arrays\.{name}\.sha256")
        impossible = {}
        if array.dtype == np.float64:
            out_of_range.flat[0] = np.inf
            impossible |= {"finite": out_of_range, "float64": array.astype(np.float32)}
        elif guarantee.trust is Trust.LOCAL:
            out_of_range.flat[0] = 200
            beyond.flat[-1] = {"users": USERS, "items": ITEMS, "symbols": 9}[name]
            impossible |= {"outside": out_of_range, r"outside|order": beyond}
            impossible["int|type"] = array.astype(np.int64)
        if name in ("items", "matrix", "left", "right", "number"):
            impossible["shape|type|columns"] = array[None]
        direct = name == "matrix" or guarantee.publishes is Publishes.ITEM_COUNTS
        if direct and array.dtype == np.float64:
            impossible["off the grid"] = array + 1e-13 * np.pi
        for message, wrong in impossible.items():
            error = refuse(*replace_array(release_card, arrays, name, wrong), message)
            assert f"arrays.{name}" in str(error)
        remainder = {n: a for n, a in arrays.items() if n != name}
        refuse(release_card, remainder, rf"arrays\.{name} is not in the file")
    surplus = arrays | {"left_raw": np.zeros((USERS, 2))}
    refuse(release_card, surplus, r"arrays\.left_raw is in the file")


@pytest.mark.slow_unless_planted
@cases
def test_no_column_more_than_the_settings_have(files, case, refuse):
    """Where the number of columns follows from the noise it has a limit."""
    release_card, arrays = load_release(files(case))
    for name in {"items", "left", "right"} & set(arrays):
        if arrays[name].ndim == 1:
            continue
        wide = np.hstack([arrays[name], np.ones((len(arrays[name]), 60))])
        message = rf"arrays\.{name} must be|does not belong|is not in"
        refuse(*replace_array(release_card, arrays, name, wide), message)


def list_objects(value, *path):
    """Yield paths to all objects of JSON within one."""
    if isinstance(value, dict):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in items:
        if isinstance(child, dict | list):
            yield from list_objects(child, *path, key)


@pytest.mark.parametrize("case", [("private-item-mean", {}), ("input-flip", {})], ids=format_case)
def test_a_surplus_field_is_refused_by_name_wherever_it_stands(files, case, refuse):
    release_card, arrays = load_release(files(case))
    for path in list_objects(release_card):
        wrong = replace_at_path(release_card, (*path, "raw\x07"), 1)
        refuse(wrong, arrays, r"raw\\x07|settings|data")


def test_a_card_in_other_letters_is_refused(files, tmp_path):
    release_card, arrays = load_release(files(("private-item-mean", {})))
    texts = (
        json.dumps(release_card, indent=1),
        json.dumps(release_card) + " ",
        json.dumps(release_card)[:-1] + ', "revision": 2}',  # a key twice
    )
    for text in texts:
        np.savez(tmp_path / "a.npz", allow_pickle=False, card=np.array(text), **arrays)
        with pytest.raises(DpmcError, match="not written as there"):
            verify_release(tmp_path / "a.npz")


def test_a_file_holds_no_byte_beside_its_arrays(files, tmp_path):
    content = files(("private-item-mean", {})).read_bytes()
    (tmp_path / "a.npz").write_bytes(content[:-2] + b"\x0b\x00raw ratings")  # ZIP has comments
    with pytest.raises(DpmcError, match="belong to no array"):
        verify_release(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "version",
    [
        *("newest", "1.0 <b>", "1" * 50, "1.0.0+the raw ratings", "", 3, None, "1.2.3\n"),
        *("2.5.0rc1", "1.15.2.post1", "0.14.0.dev3", "1.2", "1.2.3.4", "1.02.3", "1.2.12345"),
    ],
)
def test_a_version_is_one_or_refused(files, version, tmp_path, refuse):
    release_card, arrays = load_release(files(("private-item-mean", {})))
    for name in release_card["versions"]:
        wrong = replace_at_path(release_card, ("versions", name), version)
        refuse(wrong, arrays, rf"versions\.{name}")
    for name, fine in (("numpy", "2.5.0"), ("scipy", "1.15.2"), ("opendp", "0.14.0")):
        other = replace_at_path(release_card, ("versions", name), fine)
        save_release(tmp_path / "a.npz", other, arrays)
        assert verify_release(tmp_path / "a.npz").release_card["versions"][name] == fine


def test_a_card_names_three_numbers_of_a_version():
    texts = ("0.1.0", "2.5.0rc1", "1.15.2.post1", "0.14.0.dev3+local", "2.5rc1", "24.1", "unknown")
    expected = ("0.1.0", "2.5.0", "1.15.2", "0.14.0", "2.5.0", "24.1.0", "0.0.0")
    assert tuple(map(release.shorten_version, texts)) == expected


@pytest.mark.parametrize(
    ("id", "settings"),
    [
        ("private-popularity", {}),
        ("private-popularity", {"per": "cell", "delta": "0"}),
        ("output", {}),
    ],
)
def test_answers_without_noise_are_refused(id, settings, tmp_path, refuse):
    """Counts, halves of them, zeros, or counts with the last bits of the grid cut off."""
    mechanism, name = create_mechanism(id, settings), "matrix" if id == "output" else "items"
    write_release(export_release(mechanism, make_ratings(mechanism.task)), tmp_path / "a.npz")
    release_card, arrays = load_release(tmp_path / "a.npz")
    array = arrays[name]
    exponent = release_card["releases"][0]["grid"]
    cut = 2.0 ** (exponent + 45 // array.size + 1)
    for step in (1.0, 0.5, 100.0, cut, 1e9):
        wrong = step * np.round(array / step)
        refuse(*replace_array(release_card, arrays, name, wrong), rf"arrays\.{name} .*multiples")


def test_the_order_of_fields_and_arrays_says_nothing(files, refuse):
    release_card, arrays = load_release(files(("private-item-mean", {})))
    for path in ((), ("settings",), ("guarantee",), ("releases", 0), ("arrays", "items")):
        node = release_card
        for key in path:
            node = node[key]
        moved = dict(reversed(node.items()))
        edited = replace_at_path(release_card, path, moved) if path else moved
        refuse(edited, arrays, "another order")
    moved = dict(reversed(arrays.items()))
    lines = {name: release_card["arrays"][name] for name in moved}
    refuse(release_card | {"arrays": lines}, moved, "another order")


def test_what_the_publisher_answers_for_is_listed(files):
    (answers,) = (
        text
        for text in list_unverifiable(verify_release(files(("private-item-mean", {}))))
        if "the publisher answers" in text
    )
    assert "and features" not in answers  # this release has none
    for free_text in ("ids of items and users", "names of columns", "version numbers"):
        assert free_text in answers


@pytest.fixture
def forge_release(tmp_path, monkeypatch):
    """Verify a file that was released against the rules, or with other public facts on its card."""

    def forge_release(mechanism, ratings, steps=(), refused="", **public):
        public_facts = dataclasses.replace(ratings.public, **public)
        with monkeypatch.context() as patch:
            patch.setattr(release, "check_releasable", lambda *_: None)
            exported = release.export_release(mechanism, ratings)
        plain = mechanism.guarantee(public_facts)
        facts = ratings.catalogue, len(ratings), exported.arrays
        array_specs, formula = release.specify_arrays(mechanism, plain, *facts)
        _, release_card = release.build_release_card(
            *(mechanism, public_facts, len(ratings), steps, ratings.catalogue),
            *(exported.arrays, array_specs, formula),
        )
        release_card |= {"versions": exported.release_card["versions"]}
        save_release(tmp_path / "a.npz", release_card, exported.arrays)
        expected = pytest.raises(NotVerified, match=refused) if refused else nullcontext()
        with expected:
            verify_release(tmp_path / "a.npz")

    return forge_release


@pytest.mark.parametrize("id", ["gradient", "private-mean", "dpmf", "dplcf"])
def test_item_features_are_of_methods_whose_release_uses_them(id):
    """What users report themselves under local privacy does not depend on them."""
    mechanism = create_mechanism(id, {})
    facts = make_ratings(mechanism.task).public
    release.check_public_facts(mechanism, facts, ())
    with_features = dataclasses.replace(facts, features=(("genre", 2),))
    with pytest.raises(CannotRelease, match="publishes nothing that uses item features"):
        release.check_public_facts(mechanism, with_features, ["features"])


def test_nobody_writes_a_card_on_users_and_items_that_were_read_off(forge_release):
    mechanism = create_mechanism("private-item-mean", {})
    for origin in Origin:
        catalogue = Catalogue(origin, "the generated set jokes" if origin is Origin.PUBLIC else "")
        names = {"item_ids": [f"i{k}" for k in range(ITEMS)]} if origin is Origin.LISTED else {}
        ratings = make_ratings(mechanism.task, catalogue=catalogue, **names)
        refused = r"catalogue: .*read off" if origin is Origin.READ else ""
        forge_release(mechanism, ratings, refused=refused)


@pytest.mark.parametrize(
    ("catalogue", "message"),
    [
        (Catalogue(Origin.PUBLIC, "the public set of my neighbour"), "source"),
        (Catalogue(Origin.PUBLIC), "source"),
        (Catalogue(Origin.DECLARED, "a word"), "source"),
        (Catalogue(Origin.DECLARED, users_listed=False), "users_listed"),
        (Catalogue(Origin.DECLARED, users_listed=1), "users_listed"),
        (Catalogue(Origin.LISTED, "", None), "users_listed"),
    ],
    ids=str,
)
def test_a_catalogue_names_what_there_is(catalogue, message, forge_release):
    mechanism = create_mechanism("private-item-mean", {})
    named = {"item_ids": [f"i{k}" for k in range(ITEMS)]} if catalogue.has_public_names else {}
    ratings = make_ratings(mechanism.task, catalogue=catalogue, **named)
    forge_release(mechanism, ratings, refused=f"catalogue: .*{message}")


def test_a_public_set_has_no_more_users_and_items_than_it_has(forge_release):
    mechanism = create_mechanism("private-item-mean", {})
    public_set = public_sets.SETS["ml-100k"]
    source, users = f"the public set {public_set.title}", public_set.catalogue[0]
    ratings = make_ratings(mechanism.task, catalogue=Catalogue(Origin.PUBLIC, source))
    forge_release(mechanism, ratings, users=users)
    forge_release(mechanism, ratings, users=10 * users, refused=r"catalogue: .* users and items")


@pytest.mark.parametrize("id", ["randomised-response", "dplcf", "local-popularity", "local-mean"])
def test_more_users_than_reports_can_be_of_are_refused(id, forge_release):
    """Every cell reports with a known chance: a false alarm is rarer than 2^-44."""
    mechanism = create_mechanism(id, {})
    ratings = make_ratings(mechanism.task)
    for users in (USERS * 10, USERS * 1000):
        forge_release(mechanism, ratings, users=users, refused=r"data\.users .*too few")
    forge_release(mechanism, ratings)


def test_no_more_users_than_an_index_counts_and_no_more_ratings_than_the_cap(forge_release):
    mechanism = create_mechanism("private-mean", {})
    ratings = make_ratings(mechanism.task)
    forge_release(mechanism, ratings, users=2**31, refused="data: users")
    mechanism = create_mechanism("input-flip", {})
    ratings = make_ratings(mechanism.task)
    most = int(np.bincount(ratings.users).max())
    for cap, refused in ((most - 1, f"{most} ratings of one user"), (most, "")):
        forge_release(mechanism, ratings, (f"cap={cap}", "binarise=0"), refused, cap=cap)
    forge_release(mechanism, ratings, cap=most, refused="data: cap is")


@pytest.mark.parametrize("bad", ["a\nb", "a\x1b[2J", "\u202eabc", "a\x00b", "\x85"])
def test_an_id_with_control_characters_is_neither_written_nor_accepted(bad, tmp_path, refuse):
    ids = [f"i{k}" for k in range(ITEMS)]
    mechanism = create_mechanism("private-item-mean", {})
    fine, wrong = (
        make_ratings(mechanism.task, item_ids=item_ids, catalogue=Catalogue(Origin.LISTED))
        for item_ids in (ids, [bad, *ids[1:]])
    )
    with pytest.raises(CannotRelease, match="control characters") as error:
        export_release(mechanism, wrong)
    assert str(error.value).isprintable()
    write_release(export_release(mechanism, fine), tmp_path / "a.npz")
    file = load_release(tmp_path / "a.npz")
    wrong = np.array([bad, *ids[1:]])
    refuse(*replace_array(*file, "item_ids", wrong), r"arrays\.item_ids has an id with control")
    wide = file[1]["item_ids"].astype("U300")  # room for a text behind an id
    refuse(*replace_array(*file, "item_ids", wide), r"arrays\.item_ids must be <U3")


def test_arrays_of_whole_numbers_say_what_they_must(files, refuse):
    """Where parts of an array begin and end, and on which items taste is looked for."""
    file = load_release(files(("private-pgd", {"estimator": "published", "radius": "5"})))
    ends, bases = (file[1][name] for name in ("ends", "bases"))
    for wrong in (ends[::-1], ends - ends[0], ends - 1):
        refuse(*replace_array(*file, "ends", wrong), r"arrays\.ends")
    wider = np.hstack([bases, np.ones((ITEMS, 1))])
    refuse(*replace_array(*file, "bases", wider), r"arrays\.(ratios|ends)")


def test_reports_are_cells_in_order_each_once(files, refuse):
    release_card, arrays = load_release(files(("randomised-response", {})))
    for change in (lambda a: a[::-1], lambda a: np.repeat(a, 2)):
        file = release_card, arrays
        for name in arrays:
            file = replace_array(*file, name, change(arrays[name]))
        refuse(*file, "repeated or out of order")


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("mechanism",), "private-item-men", "mechanism"),
        (("mechanism",), "global-mean", "revision|settings|setting"),
        (("revision",), 99, "revision"),
        (("settings", "epsilon"), 0.5, "scale"),
        (("settings", "epsilon"), -1, "epsilon"),
        (("settings", "epsilon"), "one", "epsilon"),
        (("settings", "new"), 1, "new"),
        (("data", "users"), 0, "data"),
        (("data", "items"), ITEMS + 1, "coordinates"),
        (("data", "items"), "many", "data"),
        (("data", "items"), 10**30, "data: items"),
        (("data", "high"), 9.0, "sensitivity|high"),
        (("data", "prepare"), ["top-items=3"], "preparation"),
        (("data", "prepare"), [f"top-items={ITEMS}"], "no noise covers"),
        (("data", "prepare"), ["sort=3"], "prepare"),
        (("data", "prepare"), 5, "prepare"),
        (("catalogue", "origin"), "read", "catalogue"),
        (("catalogue", "origin"), "given", "condition"),
        (("catalogue", "origin"), "from-data", "caveats"),
        (("catalogue",), None, "catalogue"),
        (("releases",), [], "releases"),
        (("arrays",), [], "arrays"),
        (("guarantee", "caveats"), [], "caveats"),
        (("versions",), {}, "versions"),
    ],
)
def test_another_claim_is_refused_with_the_field(files, path, value, field, refuse):
    release_card, arrays = load_release(files(("private-item-mean", {})))
    refuse(replace_at_path(release_card, path, value), arrays, field)


def test_another_version_is_a_note_and_another_revision_a_refusal(files, tmp_path, refuse):
    release_card, arrays = load_release(files(("private-item-mean", {})))
    release_card["versions"]["dpmc-lab"] = "0.0.1"
    save_release(tmp_path / "old.npz", release_card, arrays)
    (note,) = verify_release(tmp_path / "old.npz").notes
    assert "0.0.1" in note
    release_card["revision"] += 1
    refuse(release_card, arrays, r"revision .*0\.0\.1")


def test_names_belong_to_the_rows_and_are_there_only_where_they_are_public(tmp_path, refuse):
    names = {
        "item_ids": [f"i{k}" for k in range(ITEMS)],
        "user_ids": [f"u{k}" for k in range(USERS)],
    }
    catalogue = Catalogue(Origin.LISTED)
    mechanism = create_mechanism("gradient", {})
    ratings = make_ratings(mechanism.task, catalogue=catalogue, **names)
    write_release(export_release(mechanism, ratings), tmp_path / "a.npz")
    release_card, arrays = load_release(tmp_path / "a.npz")
    assert verify_release(tmp_path / "a.npz").release_card == release_card
    for name, ids in names.items():
        assert arrays[name].tolist() == ids
        duplicated = arrays[name].copy()
        duplicated[0] = duplicated[1]
        for wrong, message in ((duplicated, "twice"), (arrays[name][1:], "must be")):
            file = replace_array(release_card, arrays, name, wrong)
            refuse(*file, rf"arrays\.{name} .*{message}")
    without = create_mechanism("private-item-mean", {})  # no row of it is a user's
    exported = export_release(without, make_ratings(without.task, catalogue=catalogue, **names))
    assert set(names) & set(exported.arrays) == {"item_ids"}
    release_card["catalogue"]["origin"] = "from-data"
    refuse(release_card, arrays, r"arrays\.item_ids .*does not belong")


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut"])
def test_what_is_no_release_is_a_sentence(tmp_path, content):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DpmcError, match="dpmc release"):
        verify_release(tmp_path / "a.npz")
    with pytest.raises(DpmcError, match="there is no file"):
        verify_release(tmp_path / "b.npz")
    for text in ("[]", "{", "3"):
        np.savez(tmp_path / "c.npz", card=np.array(text))
        with pytest.raises(DpmcError, match="no card"):
            verify_release(tmp_path / "c.npz")


# Forgeries of everything, with all digests made anew


@pytest.mark.parametrize("base", BASES, ids=[f"{k}-{b[0]}" for k, b in enumerate(BASES)])
def test_no_forgery_is_accepted(base, tmp_path):
    """On two releases every forgery, on the others one of each kind; `release_fuzz.py` runs all."""
    write_release(make_release(base), tmp_path / "whole.npz")
    verify_release(tmp_path / "whole.npz")
    release_card, arrays = load_release(tmp_path / "whole.npz")
    is_full, forged_kinds = base in (BASES[0], BASES[8]), set()
    for kind, wrong, other_faults in forge_all(release_card, arrays):
        if is_full or kind not in forged_kinds:
            forged_kinds.add(kind)
            save_release(tmp_path / "a.npz", wrong, other_faults)
            with pytest.raises(DpmcError) as error:
                pytest.fail(f"accepted: {kind}: {verify_release(tmp_path / 'a.npz').release_card}")
            assert str(error.value).isprintable()
            assert len(str(error.value)) < 2_000
    assert len(forged_kinds) > 20


OLD = (
    Path(__file__).parents[1] / "fixtures" / "releases"
)  # written by the version before item_features


@pytest.mark.parametrize("name", ["local", "sampled"])
def test_releases_of_the_version_before_still_verify(name):
    assert verify_release(OLD / f"{name}.npz").guarantee.certified().finite


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("catalogue", "revision of private-item-mean is 2, and this version computes revision 3"),
        ("per-user", "revision of dpals is 2, and this version computes revision 3"),
        ("features", "revision of private-effects is 1, and this version computes revision 4"),
        ("unused-features", "revision of randomised-response is 2, and this version computes"),
    ],
)
def test_releases_of_revised_mechanisms_are_refused_with_the_reason(name, message):
    with pytest.raises(NotVerified, match=message):
        verify_release(OLD / f"{name}.npz")


# Item features

FEATURED = [
    id
    for id, cls in registry.MECHANISMS.items()
    if cls.uses_item_features and registry.adds_noise(cls)
]
RATED = "user_id,item_id,rating\n" + "".join(
    f"u{u},f{i},{1 + (u * i + u) % 5}\n" for u in range(30) for i in range(9) if (u + i) % 3
)
DESCRIBED = "id,genre,year,sold\n" + "".join(
    f"f{i},{'drama' if i % 3 else 'crime'},{1990 + 5 * i % 7},{i}\n" for i in range(12)
)


@pytest.fixture
def listed(tmp_path):
    """Options of a file whose catalogue has items that nobody rated, and features of all."""
    (tmp_path / "ratings.csv").write_text(RATED)
    (tmp_path / "items.csv").write_text(DESCRIBED)
    (tmp_path / "items.txt").write_text("".join(f"f{i}\n" for i in range(12)))
    options = ["--range", "1:5", "--epsilon", "5", "--items", tmp_path / "items.csv"]
    options += ["--prepare", "features=genre,year", "--users", "40"]
    return [*options, "--catalogue", tmp_path / "items.txt", "--out", tmp_path / "a.npz"]


@pytest.mark.parametrize("id", FEATURED)
def test_every_method_with_features_is_released_over_a_catalogue(dpmc, listed, id, tmp_path):
    delta = ["--delta", "1e-6"] * registry.has_setting(registry.get_mechanism(id), "delta")
    release = ["release", tmp_path / "ratings.csv", id, *listed, *delta]
    status, out, err = dpmc(*release, "--deployment-card", tmp_path / "card.json")
    assert (status, "Wrote" in out) == (0, True), err
    condition = "certified given that these features of the items (and their columns) are public:"
    verification, (release_card, arrays) = (
        verify_release(tmp_path / "a.npz"),
        load_release(tmp_path / "a.npz"),
    )
    _, text, _ = dpmc("verify", tmp_path / "a.npz")
    # The next command repeats what was typed.
    report = out.partition("Check it")[0].replace("note", "")
    screens = [" ".join(screen_text.split()) for screen_text in (report, text)]
    screens += [json.dumps(release_card), (tmp_path / "card.json").read_text()]
    if verification.guarantee.trust is Trust.LOCAL:  # reports do not depend on features
        assert not any("features" in screen for screen in (*screens, *arrays))
        assert "uses no item features" in err
        return
    answers = " ".join(list_unverifiable(verification))
    assert (
        "the publisher answers: the ids of items and users, the names of columns and features"
        in (answers)
    )
    assert arrays["item_features"].shape == (12, 4)
    assert arrays["item_features"].any(axis=1).all()  # of items that nobody rated, too
    digest = release_card["data"]["prepare"][0].partition("#")[2]
    assert len(digest) == 8
    for screen in screens:
        assert f"{condition} genre (2), year (2); digest {digest}" in screen


def test_release_asks_whether_features_were_computed_from_the_ratings(dpmc, listed, tmp_path):
    counts = Counter(line.split(",")[1] for line in RATED.splitlines()[1:])
    extra_rows = "".join(
        f"user{u},f{i},{1 + u % 5}\n" for u in range(10) for i in range(12) if u <= i
    )
    (tmp_path / "ratings.csv").write_text(RATED + extra_rows)
    counts.update(line.split(",")[1] for line in extra_rows.splitlines())
    rows = "".join(f"f{i},{counts[f'f{i}']},{7 * i % 12}\n" for i in range(12))
    (tmp_path / "items.csv").write_text("id,sold,number\n" + rows)
    listed[listed.index("features=genre,year")] = "features=sold"
    status, _, err = dpmc("release", tmp_path / "ratings.csv", "private-effects", *listed)
    assert status == 0
    assert "sold: a number; goes along with how often items are rated: was it computed" in err
    listed[listed.index("features=sold")] = "features=number"
    (tmp_path / "b").mkdir()
    listed[-1] = tmp_path / "b" / "b.npz"
    assert dpmc("release", tmp_path / "ratings.csv", "private-effects", *listed)[2] == ""


@pytest.mark.parametrize("name", ["a,b", "a#b", "x" * 101, "a\x1bb", " a", ""])
def test_a_feature_with_a_name_that_no_card_may_have_is_not_released(name):
    mechanism = create_mechanism("private-effects", {})
    (fact, _) = make_features()
    ratings = (
        make_ratings(mechanism.task).with_item_features({name: fact.columns}).use_features([name])
    )
    with pytest.raises(CannotRelease, match="needs a name of"):
        check_releasable(mechanism, ratings, ["features"])


def test_features_that_no_table_gives_are_not_released():
    mechanism = create_mechanism("private-effects", {})
    raw = make_ratings(mechanism.task).matrix.toarray().T
    ratings = make_ratings(mechanism.task)
    for columns in (raw[:, :2], raw, np.ones((ITEMS, 51)), np.eye(ITEMS), raw[:, :0]):
        with_features = ratings.with_item_features({"raw": columns.astype(float)}).use_features(
            ["raw"]
        )
        with pytest.raises(CannotRelease, match=r"item feature '?raw"):
            check_releasable(mechanism, with_features, ["features"])


# Columns of a file, and the line to note


def test_a_release_names_the_columns_and_a_guessed_user_is_refused(tmp_path):
    mechanism = create_mechanism("private-item-mean", {})
    names = (("user", "who"), ("item", "film"))
    ratings = make_ratings(mechanism.task, columns=ColumnRoles(names, ("item",)))
    write_release(export_release(mechanism, ratings), tmp_path / "a.npz")
    assert verify_release(tmp_path / "a.npz").release_card["columns"] == {
        "user": "who",
        "item": "film",
    }
    guessed = make_ratings(mechanism.task, columns=ColumnRoles(names, ("user",)))
    with pytest.raises(CannotRelease, match="column of users was guessed"):
        check_releasable(mechanism, guessed)
    for name in ("a\x1b[2J", "x" * 101, ""):
        wrong = make_ratings(mechanism.task, columns=ColumnRoles((("user", name),)))
        with pytest.raises(CannotRelease, match="name of the column"):
            check_releasable(mechanism, wrong)


def test_release_prints_one_line_to_note_by_the_card_as_sampled(dpmc, monkeypatch, tmp_path):
    """The noise on a coarse grid: what is certified as sampled is then another number."""
    monkeypatch.setattr(
        release.exact_noise, "discrete_gaussian_mu", lambda scale, _, s: 2 * s / scale
    )
    argv = ("release", "restaurants", "private-item-mean", "--epsilon", 1, "--delta", 1e-6)
    status, out, _ = dpmc(*argv, "--out", tmp_path / "a.npz")
    assert status == 0
    (line,) = (line for line in out.splitlines() if line.startswith("Note this release"))
    assert "restaurants, private-item-mean, epsilon 2.13, delta 1e-6 per user, a.npz" in line
    assert load_release(tmp_path / "a.npz")[0]["sha256"][:16] in line
    _, text, err = dpmc(*argv, "--out", tmp_path / "b.npz", "--json")
    assert "Note this release" in err
    assert json.loads(text)["mechanism"] == "private-item-mean"


# A few lines that recommend for one user


def extract_lines(text, indent="\n"):
    """Return the lines of Python in what the command prints, or in a page of docs/."""
    start = text.index("import numpy as np\nfile = np.load(".replace("\n", indent))
    remainder = text[start : text.index("print({", start)]
    last = text[start + len(remainder) :].partition("\n")[0]
    return [line.strip() for line in (remainder + last).splitlines()]


def recommend_by_lines(lines, folder, monkeypatch, ratings=None):
    """Run what is printed, with other ratings of one's own where they are given."""
    monkeypatch.chdir(folder)
    names = {}
    own = [f"own = {ratings!r}" if line.startswith("own = ") else line for line in lines]
    exec("\n".join(lines if ratings is None else own), names)
    names["file"].close()
    return names


OF_TEN = [
    ("private-item-mean", {}),
    ("private-effects", {"epsilon": "300"}),
    ("private-popularity", {}),
    ("private-taste", {"epsilon": "1000", "rank": "2"}),
]


@pytest.mark.parametrize("described", [False, True], ids=["", "features"])
@pytest.mark.parametrize("case", OF_TEN, ids=format_case)
def test_ten_lines_recommend_for_one_user(case, described, tmp_path, monkeypatch):
    """They give the predictions of the model for a user of two items, by own ratings alone."""
    mechanism, models = create_mechanism(*case), []
    ranks = mechanism.task.value == "ranking"
    ratings = make_ratings(mechanism.task)
    keep = ratings.users != 0
    users, items = ([*values] for values in (ratings.users[keep], ratings.items[keep]))
    values = [1.0, 1.0] if ranks else [5.0, 1.0]
    combined = Ratings.build(
        [0, 0, *users], [0, 1, *items], [*values, *ratings.values[keep]], ratings.public
    )
    if described:
        combined = UseItemFeatures().apply(*(attach_features(combined, make_features()),) * 2)
    steps = ["features"] * described
    exported = export_release(
        mechanism, combined, steps, on_step=lambda _, step: models.append(step.model)
    )
    write_release(exported, tmp_path / "a.npz")
    lines = release.list_reading_lines(exported, tmp_path / "a.npz")
    assert 8 <= len(lines) <= 20
    names = recommend_by_lines(lines, tmp_path, monkeypatch)
    expected = models[-1].predict(0, np.arange(ITEMS))
    np.testing.assert_allclose(names["scores"][2:], expected[2:], rtol=1e-7, atol=1e-7)
    assert not {0, 1} & set(names["best"])
    model = release.load(tmp_path / "a.npz")
    predictions = model.predict(dict(zip("01", values[:2], strict=True)))
    clipped = expected if ranks else np.clip(expected, 1, 5)
    np.testing.assert_allclose([*predictions.values()], clipped, rtol=1e-7, atol=1e-7)


OWN = {"5": 5.0, "0": 1.0, "11": 3.0}


@cases
def test_a_loaded_model_and_the_printed_lines_agree(files, case, monkeypatch, capsys):
    """On every kind of release, for people with, without and with unknown ratings; or both say why
    there is no such model."""
    release_card, arrays = load_release(files(case))
    exported = release.Export(arrays, release_card, None)
    lines = release.list_reading_lines(exported, files(case))
    if not lines:
        with pytest.raises(DpmcError, match="is no model of a few lines: "):
            release.load(files(case))
        return
    assert len(lines) <= 20
    model = release.load(files(case))
    ranks = release_card["task"] == "ranking"
    for ratings in (OWN, {}, OWN | {"new": 2.0}):
        own = dict.fromkeys(ratings, 1.0) if ranks else ratings
        expected_warning = pytest.warns(UserWarning, match="does not have them: items 'new'")
        with expected_warning if "new" in own else nullcontext():
            best = model.recommend(own, 10)
            predictions = model.predict(own)
        capsys.readouterr()
        recommend_by_lines(lines, files(case).parent, monkeypatch, own)
        printed = eval(capsys.readouterr().out)
        assert [*printed] == best
        assert not set(best) & set(own)
        np.testing.assert_allclose([*printed.values()], [predictions[id] for id in best], 1e-9)
        assert ranks or all(1 <= value <= 5 for value in predictions.values())


def test_a_loaded_model_knows_items_by_their_ids_and_refuses_impossible_ratings(tmp_path):
    mechanism, ids = (
        create_mechanism("private-effects", {"epsilon": "50"}),
        [f"i{k}" for k in range(ITEMS)],
    )
    ratings = make_ratings(mechanism.task, item_ids=ids, catalogue=Catalogue(Origin.LISTED))
    write_release(export_release(mechanism, ratings), tmp_path / "a.npz")
    model = release.load(tmp_path / "a.npz")
    assert set(model.recommend({"i3": 5}, 99)) == {*ids} - {"i3"}
    with pytest.raises(InvalidSetting, match="the rating of i3 must be >= 1 and <= 5"):
        model.predict({"i3": 6})
    # The order of rows means nothing where there are ids.
    release_card, arrays = load_release(tmp_path / "a.npz")
    order = np.random.default_rng(0).permutation(ITEMS)
    moved = arrays | {name: arrays[name][order] for name in ("items", "item_ids")}
    save_release(tmp_path / "b.npz", release_card, moved)
    other = release.load(tmp_path / "b.npz").predict({"i3": 5, "i7": 2})
    assert other == pytest.approx(model.predict({"i3": 5, "i7": 2}))


def test_the_lines_in_the_docs_are_those_that_release_prints(dpmc, tmp_path, monkeypatch):
    argv = ("release", "jokes", "private-item-mean", "--epsilon", 1, "--delta", 1e-6)
    status, out, _ = dpmc(*argv, "--out", tmp_path / "items.npz")
    assert status == 0
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text("utf-8")
    assert extract_lines(page) == extract_lines(out, "\n  ")
    assert len(extract_lines(page)) == 11
    assert len(recommend_by_lines(extract_lines(page), tmp_path, monkeypatch)["best"]) == 10


# The own predictions, by the formula on the card


def predict_from_release(case, release_card, arrays, x, rated):
    """One user's predictions for all items from the released arrays and the own ratings alone, and
    the part of them that is taste.

    What the formula on the card says, written by hand.
    """
    id, items = case[0], arrays["items"]
    formula, settings = release_card["predictions"], release_card["settings"]
    middle = (release_card["data"]["low"] + release_card["data"]["high"]) / 2
    if formula.startswith("everybody"):
        return items[:, 0], 0.0
    if formula.startswith("f is"):
        features = arrays["features"]
        f, longest = features[rated].sum(axis=0), np.linalg.norm(features, axis=1).max()
        g = f / np.linalg.norm(f) if np.linalg.norm(f) > 1e-9 * longest else 0 * f
        return items @ np.concatenate([[1.0], g - arrays["centre"]]), items[:, 1:] @ g
    if formula.startswith("Q is"):
        q, alpha = items[rated], settings.get("alpha", 1.0)
        complement = id != "dpimf-strawman"
        ridge = len(rated) + alpha * (ITEMS - complement * len(rated))
        matrix = (1 - alpha * complement) * q.T @ q + alpha * items.T @ items
        matrix += settings["regularisation"] * ridge * np.eye(items.shape[1])
        scores = items @ np.linalg.solve(matrix, q.sum(axis=0))
        return scores, scores
    if id == "dpmf-clicks":
        matrix = items.T @ items + settings["user_penalty"] * np.eye(items.shape[1])
        sums = items[rated].sum(axis=0)
        u = np.linalg.solve(matrix, sums)
        if settings["unit_ball"] and np.linalg.norm(u) > 1:
            (u,) = minimise_in_ball(matrix[None], 2 * sums[None], 1.0)
        return items @ u, items @ u
    if id == "dpmf":
        v, y = items[:, :-1], x - middle
        matrix = v[rated].T @ v[rated] + settings["user_penalty"] * np.eye(v.shape[1])
        u = np.linalg.solve(matrix, v[rated].T @ y)
        if settings["unit_ball"] and np.linalg.norm(u) > 1:
            (u,) = minimise_in_ball(matrix[None], 2 * (v[rated].T @ y)[None], 1.0)
        return middle + v @ u, v @ u
    if "user_prior" in settings and formula.startswith("items is [V, 1"):
        v, e = items[:, :-2], items[:, -1]
        raw = x - middle - e[rated]
        b = raw.sum() / (len(raw) + settings["user_prior"])
        clamp = settings["clamp"] * 2 * (release_card["data"]["high"] - middle)
        y = np.clip(raw - b, -clamp, clamp)
        matrix = v[rated].T @ v[rated] + arrays["noise"] * np.eye(v.shape[1])
        low_rank = v @ np.linalg.solve(matrix, v[rated].T @ y)
        return middle + b + e + low_rank, low_rank
    if "[Z, e]" in formula or "[V, Z, e]" in formula:
        k = len(arrays["ridge"])
        v, z, e = items[:, : -k - 1], items[:, -k - 1 : -1], items[:, -1]
        models = [(np.ones(k), 1.0, 0.0)]
        if "scales" in arrays:
            models = zip(
                arrays["scales"], arrays["effect_weights"], arrays["log_priors"], strict=True
            )
        log_weights, solutions = [], []
        for scales, effect_weight, log_prior in models:
            mask = scales > 0
            y, zr = x - arrays["mean"] - effect_weight * e[rated], z[rated][:, mask]
            ridge = arrays["ridge"][np.ix_(mask, mask)] / np.outer(scales[mask], scales[mask])
            gram, theta = zr.T @ zr + ridge, np.zeros(k)
            theta[mask] = np.linalg.solve(gram, zr.T @ y)
            volume = np.linalg.slogdet(ridge)[1] - np.linalg.slogdet(gram)[1]
            rest = 2 * arrays.get("noise", 0.0) + y @ y - theta[mask] @ zr.T @ y
            log_weights.append(log_prior + volume / 2 - (2 + len(y)) / 2 * np.log(rest))
            solutions.append(np.append(theta, effect_weight))
        weights = np.exp(np.array(log_weights) - max(log_weights))
        *theta, effect_weight = weights @ solutions / weights.sum()
        base, theta = arrays["mean"] + effect_weight * e + z @ theta, np.array(theta)
    else:
        v, e = items[:, :-2], items[:, -1]
        base = (x - e[rated]).mean() + e
    if not v.shape[1]:
        return base, z[:, 3:] @ theta[3:]
    y, row = x - base[rated], None
    if "columns" in arrays:
        mask = np.isin(rated, arrays["columns"])
        y, rated = y[mask], rated[mask]
    if "row_norm" in arrays:
        norm = float(arrays["row_norm"])

        def clip_to_norm(vector, reference):
            return vector * min(1.0, norm / max(np.linalg.norm(reference), 1e-300))

        y = clip_to_norm(y, y)
    if "shares" in arrays:
        u, p = np.zeros(v.shape[1]), np.zeros(len(y))
        for t, (share, step) in enumerate(zip(arrays["shares"], arrays["steps"], strict=True)):
            w = step * v[rated, t] @ (p - y)
            u, p = (1 - share) * u, (1 - share) * p + w * v[rated, t]
            u[t] = w
            u, p = clip_to_norm(u, p), clip_to_norm(p, p)
    elif "bases" in arrays:
        row, start = np.zeros(ITEMS), 0
        for step, end in zip(arrays["steps"], arrays["ends"], strict=True):
            row[rated] += step * (y - row[rated])
            row = clip_to_norm(row, row)
            basis = arrays["bases"][:, start:end]
            u = (row @ basis) * arrays["ratios"][start:end]
            row, start = basis @ u, end
    elif "density" in arrays:
        u = v[rated].T @ y / arrays["density"]
    else:
        u = np.linalg.solve(
            v[rated].T @ v[rated] + settings["ridge"] * np.eye(v.shape[1]), v[rated].T @ y
        )
    return base + v @ u, v @ u


def publishes_item_factors(case):
    mechanism = create_mechanism(*case)
    guarantee = mechanism.guarantee(make_ratings(mechanism.task).public)
    return (
        guarantee.trust is not Trust.LOCAL
        and guarantee.publishes not in (Publishes.MATRIX, Publishes.ONE_NUMBER)
        and case[1].get("cap") is None  # else which ratings are used is chosen at random
    )


def check_formula(case, path, item_features=()):
    """Compare all users' predictions with the card's formula; return the largest low-rank part."""
    mechanism, models, tastes = create_mechanism(*case), [], []
    ratings, steps = make_ratings(mechanism.task), []
    if item_features:
        ratings, step = attach_features(ratings, item_features), UseItemFeatures()
        ratings, steps = step.apply(ratings, ratings), [str(step)]
    exported = export_release(
        mechanism, ratings, steps, on_step=lambda _, step: models.append(step.model)
    )
    write_release(exported, path)
    release_card, arrays = load_release(path)
    for user in range(USERS):
        row = slice(*ratings.indptr[user : user + 2])
        computed, low_rank = predict_from_release(
            case, release_card, arrays, ratings.values[row], ratings.items[row]
        )
        expected = models[-1].predict(user, np.arange(ITEMS))
        np.testing.assert_allclose(computed, expected, rtol=1e-7, atol=1e-7)
        tastes.append(low_rank)
    return np.abs(tastes).max()


@pytest.mark.slow
@pytest.mark.parametrize("case", [*filter(publishes_item_factors, RELEASED)], ids=format_case)
def test_a_user_finds_the_own_predictions_by_the_formula_on_the_card(case, tmp_path):
    # So much epsilon is for taste to be heard, or nothing of it would be compared. 34 of 700
    # releases of private-taste, whose start is random, heard none: all of 20 below .15^20.
    is_noisy = "epsilon" in case[1]
    paths = (tmp_path / f"{draw}.npz" for draw in range(20 if is_noisy else 1))
    has_low_rank = any(check_formula(case, path) > 1e-3 for path in paths)
    assert has_low_rank or not is_noisy


WITH_FEATURES = [
    ("private-item-mean", {}),
    ("private-effects", {"epsilon": "300"}),
    ("private-frank-wolfe", {"epsilon": "3000"}),
]


@pytest.mark.parametrize("case", WITH_FEATURES, ids=format_case)
def test_a_user_averages_over_item_features_by_the_formula_on_the_card(case, tmp_path):
    check_formula(case, tmp_path / "items.npz", make_features())


# The commands


def test_the_command_says_in_one_sentence_what_a_file_promises(dpmc, files, tmp_path):
    path = files(("private-item-mean", {}))
    status, text, err = dpmc("verify", path)
    assert (status, err) == (0, "")
    flat = " ".join(text.split())
    for phrase in ("Epsilon 1", "delta 1e-6", "per user", "certified given"):
        assert phrase in flat
    status, text, _ = dpmc("verify", path, "--json")
    report = json.loads(text)
    assert report["verified"] is True
    assert report["card"] == load_release(path)[0]
    release_card, arrays = load_release(path)
    release_card["guarantee"]["certified"]["epsilon"] = 0.1
    save_release(tmp_path / "edited.npz", release_card, arrays)
    status, text, err = dpmc("verify", tmp_path / "edited.npz")
    assert (status, text) == (1, "")
    assert "guarantee.certified.epsilon is 0.1" in err
    status, text, err = dpmc("verify", tmp_path / "edited.npz", "--json")
    assert status == 1
    report = json.loads(text)
    assert report["verified"] is False
    assert "guarantee.certified.epsilon" in report["faults"][0]
    assert dpmc("verify")[0] == 2
    assert dpmc("verify", tmp_path / "none.npz")[0] == 1


# Signatures


@pytest.fixture
def signing(files, tmp_path):
    """A release with a signature, and who may sign: (file, allowed signers, sign(name, ...))."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("needs ssh-keygen")
    path, allowed = tmp_path / "items.npz", tmp_path / "allowed_signers"
    shutil.copy(files(("private-item-mean", {})), path)

    def sign(name, namespace="dpmc-release", key="key"):
        if not (tmp_path / key).exists():
            argv = ("-q", "-t", "ed25519", "-N", "", "-C", name, "-f", tmp_path / key)
            subprocess.run(["ssh-keygen", *argv], check=True)
        (tmp_path / "items.npz.sig").unlink(missing_ok=True)
        argv = ("-Y", "sign", "-q", "-f", tmp_path / key, "-n", namespace, path)
        subprocess.run(["ssh-keygen", *argv], check=True, capture_output=True)
        kind, public, *_ = (tmp_path / f"{key}.pub").read_text().split()
        return f"{name} {kind} {public}\n"

    return path, allowed, sign


def test_a_signature_of_an_allowed_signer_is_accepted(dpmc, signing):
    path, allowed, sign = signing
    allowed.write_text(sign("ann@example.org"))
    assert verify_signature(path, allowed) == "ann@example.org"
    status, text, err = dpmc("verify", path, "--allowed-signers", allowed)
    assert (status, err) == (0, "")
    assert "Signed by 'ann@example.org'" in text
    assert "sign the file" not in text
    report = json.loads(dpmc("verify", path, "--allowed-signers", allowed, "--json")[1])
    assert report["signer"] == "ann@example.org"
    assert not any("sign the file" in sentence for sentence in report["unnoticed"])
    assert verify_signature(path, allowed, "ann@example.org") == "ann@example.org"


def test_a_signature_that_does_not_count_is_refused(signing):
    path, allowed, sign = signing
    ann = sign("ann@example.org")
    allowed.write_text(ann)
    with pytest.raises(NotVerified, match=r"none of bob@example\.org"):
        verify_signature(path, allowed, "bob@example.org")
    allowed.write_text(sign("bob@example.org", key="other"))
    sign("ann@example.org")
    with pytest.raises(NotVerified, match="no key that allowed_signers lists"):
        verify_signature(path, allowed)
    allowed.write_text(ann)
    sign("ann@example.org", namespace="file")  # made for something else
    with pytest.raises(NotVerified, match="namespace dpmc-release"):
        verify_signature(path, allowed)
    sign("ann@example.org")
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(NotVerified, match=r"none of ann@example\.org for this file"):
        verify_signature(path, allowed)
    kind = ann.split(" ", 1)[1]
    allowed.write_text(f'ann@example.org valid-before="20200101" {kind}')
    with pytest.raises(NotVerified, match="signature"):
        verify_signature(path, allowed)


def test_why_a_signature_cannot_be_checked_is_a_sentence(dpmc, signing, monkeypatch):
    path, allowed, sign = signing
    ann = sign("ann@example.org")
    with pytest.raises(DpmcError, match="no list of allowed signers"):
        verify_signature(path, allowed)
    kind = ann.split(" ", 1)[1]
    for names in ("*@example.org", "ann@example.org,bob@example.org"):
        allowed.write_text(f"{names} {kind}")
        with pytest.raises(InvalidSetting, match="--signer must be given"):
            verify_signature(path, allowed)
        assert verify_signature(path, allowed, "ann@example.org") == "ann@example.org"
    allowed.write_text("\x1b[2J nonsense\n")
    with pytest.raises(NotVerified) as error:
        verify_signature(path, allowed)
    assert str(error.value).isprintable()
    allowed.write_text(ann)
    signature = path.with_name("items.npz.sig")
    signature.write_bytes(b"-----BEGIN SSH SIGNATURE-----\nnone\n")
    with pytest.raises(NotVerified, match="signature"):
        verify_signature(path, allowed)
    signature.unlink()
    with pytest.raises(DpmcError, match="no signature beside the file"):
        verify_signature(path, allowed)
    signature.touch()
    monkeypatch.setenv("PATH", str(path.parent))
    with pytest.raises(DpmcError, match="ssh-keygen of OpenSSH"):
        verify_signature(path, allowed)
    status, text, err = dpmc("verify", path, "--allowed-signers", allowed)
    assert (status, text) == (1, "")
    assert "Traceback" not in err
    assert dpmc("verify", path, "--signer", "ann")[0] in (1, 2)


SECTIONS = {
    "product", "dp_flavor", "privacy_loss", "model", "accounting", "implementation", "resources",
}  # fmt: skip
FLAVOR = {
    "name", "input_metric", "bound_on_input_distance", "output_measure",
    "bound_on_output_distance", "data_domain", "unprotected_quantities",
}  # fmt: skip


@pytest.mark.slow_unless_planted
@cases
def test_a_deployment_card_has_the_sections_of_the_registry(files, case):
    verification = verify_release(files(case))
    deployment_card = build_deployment_card(verification.release_card, verification.guarantee)
    assert set(deployment_card) == SECTIONS
    assert set(deployment_card["dp_flavor"]) == FLAVOR
    certified = verification.guarantee.certified()
    budget = {"epsilon": certified.epsilon, "delta": certified.delta}
    assert deployment_card["dp_flavor"]["bound_on_output_distance"] == budget
    assert deployment_card["privacy_loss"]["parameters"] == budget
    assert deployment_card["product"]["publisher"] is None
    json.dumps(deployment_card, allow_nan=False)


def test_both_commands_write_the_same_deployment_card(dpmc, tmp_path):
    argv = ("restaurants", "private-item-mean", "--epsilon", 1, "--out", tmp_path / "a.npz")
    status, _, err = dpmc("release", *argv, "--deployment-card", tmp_path / "one.json")
    assert (status, err) == (0, "")
    status, _, _ = dpmc("verify", tmp_path / "a.npz", "--deployment-card", tmp_path / "two.json")
    assert status == 0
    first, second = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("one", "two"))
    assert first == second
    status, _, err = dpmc("verify", tmp_path / "a.npz", "--deployment-card", tmp_path / "two.json")
    assert status == 1
    assert "is there already" in err
