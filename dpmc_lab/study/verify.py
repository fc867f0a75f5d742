"""Verify a released file: compute everything again from its card and compare.

The card names the mechanism with its revision and settings, the public facts and the catalogue.
Everything else follows from these except the numbers themselves, and any difference is refused. A
file proves its guarantee if its numbers were drawn as its card says. It does not prove that they
were, nor by whom: see `list_unverifiable`.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from dpmc_core import registry
from dpmc_core.errors import DpmcError, InvalidSetting, check_number, format_value
from dpmc_core.model import Mechanism
from dpmc_core.preparation import MAX_USERS, parse_step
from dpmc_core.privacy import Guarantee, Trust
from dpmc_core.privacy.channels import MatrixChannel
from dpmc_core.ratings import Catalogue, Origin, PublicFacts
from dpmc_core.settings import list_settings, parse_setting
from dpmc_data.datasets import list_public_sources
from dpmc_data.paths import get_version
from dpmc_lab.study.release import (
    FEATURES_ARRAY,
    ID_ARRAYS,
    NEGLIGIBLE_CHANCE_BITS,
    PACKAGES,
    PER_USER_ARRAYS,
    Arrays,
    EarlierFile,
    build_release_card,
    check_all_covered,
    check_public_facts,
    check_steps,
    describe_sum,
    digest_release_card,
    find_array_faults,
    find_coding_fault,
    find_direct_release,
    find_noise_fault,
    is_publishable_name,
    list_reads,
    read_release,
    shorten_version,
    specify_arrays,
)

NAMESPACE = "dpmc-release"  # of signatures, so that one for another purpose is not accepted
_MAX_LISTED_FAULTS = 5  # faults listed in one message
_TOLERANCE = 1e-9  # relative: another version of SciPy may calibrate other last digits
_MAX_FAULT_LENGTH = 400  # characters of a fault
COLUMN_ROLES = {"user", "item", "rating", "time"}  # of a file's columns
_VERSION = re.compile(r'"(0|[1-9]\d{0,3})(\.(0|[1-9]\d{0,3})){2}"', re.ASCII)  # in JSON


class NotVerified(DpmcError):
    """A release that does not keep what its guarantee states.

    Attributes:
        name: the name of the release.
        faults: what is wrong, each as a clause that names the field.
    """

    def __init__(self, name: str, faults: Sequence[str]) -> None:
        self.name, self.faults = name, tuple(faults)
        listed = "; ".join(self.faults[:_MAX_LISTED_FAULTS])
        n_left = len(self.faults) - _MAX_LISTED_FAULTS
        remainder = f"; and {n_left} more" * (n_left > 0)
        super().__init__(f"{name} is not verified: {listed}{remainder}")


@dataclass(frozen=True, eq=False)
class VerifiedRelease:
    """A released file that passed verification.

    Attributes:
        mechanism: the mechanism with its settings.
        guarantee: the guarantee as sampled.
        release_card: the card.
        notes: sentences that a reader of the release should know.
    """

    mechanism: Mechanism
    guarantee: Guarantee
    release_card: Mapping[str, Any]
    notes: tuple[str, ...]


def verify_release(path: str | Path) -> VerifiedRelease:
    """Compute the certificate of a released file again and check its arrays.

    Args:
        path: the file.

    Raises:
        NotVerified: a field does not follow from the others; the error lists all such fields.
        DpmcError: the file is not a release.
    """
    file_path = Path(path)
    release_card, arrays = read_release(file_path)
    try:
        mechanism, guarantee, faults = _check_card(release_card, arrays)
    except NotVerified as error:
        faults = list(error.faults)
    if not faults and release_card.get("sha256") != digest_release_card(release_card):
        faults = [
            f"sha256 is {format_value(release_card.get('sha256'))}, which is not that of the card"
        ]
    if faults:
        raise NotVerified(file_path.name, [_escape(fault) for fault in faults])
    writer_version = str(release_card["versions"]["dpmc-lab"])
    notes = (
        ()
        if writer_version == shorten_version(get_version())
        else (f"written by version {writer_version}, this is {get_version()}",)
    )
    return VerifiedRelease(mechanism, guarantee, release_card, notes)


def read_earlier(paths: Iterable[Path]) -> tuple[EarlierFile, ...]:
    """Read the files that a release follows; each must verify.

    Another version may have written a file. Its budget then counts by its card, and its arrays are
    not used.

    Args:
        paths: the files.

    Raises:
        DpmcError: a file is no release, or is not as its card says.
    """
    files = []
    for path in paths:
        release_card, arrays = read_release(path)
        facts: Any = None, None
        try:
            verified = verify_release(path)
            facts = verified.mechanism, verified.guarantee.public
        except NotVerified as error:
            is_old = all(fault.startswith("revision of") for fault in error.faults)
            if not is_old or digest_release_card(release_card) != release_card.get("sha256"):
                raise
        files.append(EarlierFile(path.name, release_card, arrays, *facts))
    return tuple(files)


def list_unverifiable(verified: VerifiedRelease) -> tuple[str, ...]:
    """Return sentences on what verification cannot show.

    The first sentence does not apply to a signed file.
    """
    arrays = verified.release_card["arrays"]
    guarantee = verified.guarantee
    has_only_answers = all(
        name in ID_ARRAYS or find_direct_release(guarantee, name) for name in arrays
    )
    users = "" if PER_USER_ARRAYS & set(arrays) else ", of whom no row here is one's own"
    sentences = (
        "digests notice accidents, not forgers: sign the file",
        "whether the noise was drawn as the card says: less of it, or noise from a seed that"
        " somebody kept, looks the same",
        ""
        if has_only_answers or guarantee.trust is Trust.LOCAL
        else "what a forger hides in numbers that were computed from noisy answers: these are not"
        " computed again",
        "whose ratings they were, whether real ones, and whether somebody is in them twice",
        "what free text says, for which the publisher answers: the ids of items and users, the"
        f" names of columns{' and features' * bool(guarantee.public.features)}, and the version"
        " numbers",
        f"whether the range, and that there are {guarantee.public.users:,} users{users}, was known"
        " before any rating was read",
        "what else was released of the same ratings, which spends its budget again",
        "whether the releases that this one follows spent what its card says: their files show it,"
        " under the same digests"
        if "after" in verified.release_card
        else "",
    )
    return tuple(filter(None, sentences))


def list_signing_commands(name: str) -> tuple[str, str]:
    """Return the command that signs a file, and the one that checks its signature."""
    tool = "ssh-keygen -Y"
    return (
        f"{tool} sign -f ~/.ssh/id_ed25519 -n {NAMESPACE} {name}",
        f"{tool} verify -f allowed_signers -I NAME -n {NAMESPACE} -s {name}.sig < {name}",
    )


def verify_signature(path: Path, allowed: Path, signer: str | None = None) -> str:
    """Return who signed a file, by its signature beside it, FILE.sig.

    Args:
        path: the file.
        allowed: list of signers in the format of ssh-keygen.
        signer: name of the required signer (default: the owner of the key).

    Raises:
        NotVerified: none of the signers signed the file.
        DpmcError: the signature cannot be checked.
    """
    signature = path.with_name(f"{path.name}.sig")
    for required_path, description in (
        (path, "file"),
        (allowed, "list of allowed signers"),
        (signature, "signature beside the file,"),
    ):
        if not required_path.is_file():
            raise DpmcError(f"there is no {description} {required_path}")
    status = 0
    fault = f"signature is of no key that {allowed.name} lists"
    if signer is None:  # find the owner of the key; a pattern or several names do not identify one
        status, output = _run_ssh_keygen("find-principals", signature, allowed)
        signer, *other_signers = re.split("[,\n]", output)
        if not status and (other_signers or set(signer) & set("*?!")):
            limit = f"given, for the key is that of {_escape(', '.join([signer, *other_signers]))}"
            raise InvalidSetting("--signer", limit, None)
    if not status:
        fault = f"signature is none of {signer} for this file in the namespace {NAMESPACE}"
        status, output = _run_ssh_keygen(
            "verify", signature, allowed, "-I", signer, "-n", NAMESPACE, signed_file=path
        )
    if status:
        raise NotVerified(_escape(path.name), [_escape(f"{fault} ({output})")])
    return signer


def _run_ssh_keygen(
    command: str, signature: Path, allowed: Path, *options: str, signed_file: Path | None = None
) -> tuple[int, str]:
    """Run ssh-keygen -Y, and return its exit status and its output.

    Args:
        command: what it does with signatures.
        signature: the file with the signature.
        allowed: the list of allowed signers.
        *options: further options.
        signed_file: the file to send to its standard input, if any.

    Raises:
        DpmcError: it does not run.
    """
    arguments = ("ssh-keygen", "-Y", command, "-s", str(signature), "-f", str(allowed), *options)
    try:
        with Path(signed_file or os.devnull).open("rb") as content:
            process = subprocess.run(
                arguments, stdin=content, capture_output=True, timeout=60, check=False
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DpmcError(
            f"a signature is checked by ssh-keygen of OpenSSH, which does not run here ({error})"
        ) from None
    output = process.stderr if process.returncode else process.stdout
    return process.returncode, output.decode(errors="backslashreplace").strip()


def _check_card(
    release_card: Mapping[str, Any], arrays: Arrays
) -> tuple[Mechanism, Guarantee, list[str]]:
    """Compute a card again from its inputs, and compare.

    Args:
        release_card: the card of a file.
        arrays: the arrays of the file.

    Returns:
        The mechanism, its guarantee as sampled, and a sentence on every fault.

    Raises:
        NotVerified: a field is so wrong that nothing can be computed.
    """
    mechanism = _parse_field("mechanism", lambda: _parse_mechanism(release_card))
    public = _parse_field("data", lambda: _parse_public_facts(release_card["data"]))
    catalogue = _parse_field(
        "catalogue", lambda: _parse_catalogue(release_card["catalogue"], public)
    )
    steps = _parse_field(
        "data.prepare", lambda: [str(parse_step(text)) for text in release_card["data"]["prepare"]]
    )
    _parse_field("data", lambda: check_public_facts(mechanism, public, steps))
    ideal = _parse_field("settings", lambda: mechanism.guarantee(public))
    _parse_field("data.prepare", lambda: check_steps(list_reads(steps), ideal))
    _parse_field("mechanism", lambda: check_all_covered(mechanism, ideal))
    observed = _parse_field("releases", lambda: _read_rating_count(release_card, ideal, arrays))
    specs, formula = _parse_field(
        "settings", lambda: specify_arrays(mechanism, ideal, catalogue, observed, arrays)
    )
    array_problems = find_array_faults(specs, arrays)
    if public.features:
        array_problems = array_problems or [*_find_feature_faults(public, arrays)]
    if not arrays.keys() <= specs.keys() or (public.features and array_problems):
        raise NotVerified("", array_problems)
    guarantee, expected = _parse_field(
        "releases",
        lambda: build_release_card(
            mechanism, public, observed, steps, catalogue, arrays, specs, formula
        ),
    )
    columns = release_card.get("columns")
    if isinstance(columns, dict) and columns and columns.keys() <= COLUMN_ROLES:
        expected["columns"] = {
            role: n if is_publishable_name(n) else "a name" for role, n in columns.items()
        }
    # Nothing shows when the file was written, so any day is accepted; once cards had none.
    if "date" in release_card:
        day = _parse_field("date", lambda: date.fromisoformat(release_card["date"]))
        expected["date"] = day.isoformat()
    if after := release_card.get("after"):
        expected["after"] = _parse_field(
            "after", lambda: describe_sum(guarantee, after["releases"], after["half_life_weeks"])
        )
    # Nothing shows which versions wrote the file, so any three numbers are accepted.
    claimed_versions = release_card.get("versions")
    versions_by_name = claimed_versions if isinstance(claimed_versions, dict) else {}
    expected["versions"] = {
        name: versions_by_name[name]
        if _VERSION.fullmatch(json.dumps(versions_by_name.get(name)))
        else "a version"
        for name in ("dpmc-lab", *PACKAGES)
    }
    claimed = {name: value for name, value in release_card.items() if name != "sha256"}
    faults = [*_find_differences(claimed, json.loads(json.dumps(expected)), ""), *array_problems]
    if not array_problems:
        for name, array in arrays.items():
            release = find_direct_release(guarantee, name)
            if release is not None and (fault := find_noise_fault(release, array)):
                faults.append(f"arrays.{name} {fault}")
        if guarantee.trust is Trust.LOCAL:
            faults += _find_report_faults(ideal, arrays)
    return mechanism, guarantee, faults


def _escape(text: str) -> str:
    """Return a stranger's text with its control characters escaped, cut if it is long."""
    escaped = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:_MAX_FAULT_LENGTH])
    return escaped if len(text) <= _MAX_FAULT_LENGTH else f"{escaped}..."


def _parse_field(field: str, parse: Any) -> Any:
    """Parse a field of the card, or compute something from it.

    Args:
        field: name of the field, which faults start with.
        parse: function without arguments that reads the field and returns the result.

    Raises:
        NotVerified: the field cannot be parsed; the message names it.
    """
    try:
        return parse()
    except NotVerified:
        raise
    except KeyError as error:
        raise NotVerified("", [f"{field}: {error} is missing"]) from None
    except DpmcError as error:
        raise NotVerified("", [f"{field}: {error}"]) from None
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError):
        raise NotVerified("", [f"{field} is not as a release writes it"]) from None


def _parse_mechanism(release_card: Mapping[str, Any]) -> Mechanism:
    """Create the mechanism that a card names, with the card's settings.

    Raises:
        NotVerified: this version computes another revision of the mechanism.
        InvalidSetting: a setting is missing or not valid.
    """
    cls = registry.get_mechanism(str(release_card["mechanism"]))
    if release_card["revision"] != cls.revision:
        writer_version = format_value(
            dict(release_card.get("versions") or {}).get("dpmc-lab", "unknown")
        )
        raise NotVerified(
            "",
            [
                f"revision of {cls.id} is {format_value(release_card['revision'])}, and this"
                f" version computes revision {cls.revision} alone: verify with the version that"
                f" wrote it ({writer_version})"
            ],
        )
    declared = {s.name: s for s in list_settings(cls)}
    if set(release_card["settings"]) != set(declared):
        name = min(set(release_card["settings"]) ^ set(declared))
        raise InvalidSetting(
            name, "a setting that is on the card" if name in declared else "known", name
        )
    values = dict(release_card["settings"])
    for name, value in values.items():  # such as members of an enumeration
        if isinstance(value, str) and declared[name].type is not str:
            values[name] = parse_setting(cls, name, value)
    return registry.create(cls.id, **values)


def _parse_public_facts(data: Mapping[str, Any]) -> PublicFacts:
    """Return the public facts of a card, with the numbers of users and items checked."""
    for name in ("users", "items"):
        check_number(name, data[name], at_least=1, at_most=MAX_USERS, integer=True)
    fields = {name: data[name] for name in ("users", "items", "low", "high", "cap")}
    return PublicFacts(**fields, features=data.get("features", ()))


def _parse_catalogue(record: Mapping[str, Any], public: PublicFacts) -> Catalogue:
    """Return the catalogue of a card.

    Raises:
        DpmcError: it was read off the ratings, or does not fit the public set that it names.
    """
    origin, source, listed = (record[name] for name in ("origin", "source", "users_listed"))
    catalogue = Catalogue(Origin(origin), source, listed)
    if catalogue.origin is Origin.READ:
        raise DpmcError(
            "its users and items were read off the ratings, and nobody said they may be"
        )
    # The known public sets with their sizes; any other origin has an empty source.
    sources = list_public_sources() if catalogue.origin is Origin.PUBLIC else {"": None}
    if source not in sources:
        raise DpmcError(f"source is {format_value(source)}, which names no such set")
    # Without a public set, or with one of unknown size, there is nothing to compare.
    if any(
        count > max_count
        for count, max_count in zip(public.shape, sources[source] or (), strict=False)
    ):
        raise DpmcError(f"{source} has {sources[source]} users and items, got {public.shape}")
    if listed is not True and (listed is not False or catalogue.origin is not Origin.LISTED):
        raise DpmcError(f"users_listed is {format_value(listed)}")
    return catalogue


def _read_rating_count(release_card: Mapping[str, Any], ideal: Guarantee, arrays: Arrays) -> int:
    """Return the number of ratings, which fills the None in a release's shape.

    It is the length of the published symbols, or the card's count if no symbols are published. If
    no shape has a None, it is 1, because nothing on the card depends on it.

    Args:
        release_card: the card.
        ideal: the guarantee with ideal noise.
        arrays: the arrays of the file.

    Raises:
        NotVerified: the number on the card is not possible.
    """
    for (_, release), line in zip(ideal.releases, release_card["releases"], strict=True):
        if None in release.shape:
            count = len(arrays["symbols"]) if "symbols" in arrays else line["coordinates"]
            users, items = ideal.public.shape
            if type(count) is not int or not 1 <= count <= users * (ideal.public.cap or items):
                raise NotVerified("", [f"releases: coordinates of '{release.query}' is {count!r}"])
            return count
    return 1


def _find_differences(claimed: Any, expected: Any, location: str) -> Iterator[str]:
    """Yield a sentence on each field of the claimed card that differs from the expected one.

    Args:
        claimed: the value on the card.
        expected: the value that was computed again.
        location: path of the field.
    """
    if isinstance(expected, dict) and isinstance(claimed, dict):
        for name in [*expected, *(name for name in claimed if name not in expected)]:
            field_path = f"{location}.{name}" if location else str(name)
            if name not in claimed:
                yield f"{field_path} is missing"
            elif name not in expected:
                yield f"{field_path} does not belong there"
            else:
                yield from _find_differences(claimed[name], expected[name], field_path)
        if claimed.keys() == expected.keys() and [*claimed] != [*expected]:
            yield f"{location or 'the card'} has its fields in another order"
    elif isinstance(expected, list) and isinstance(claimed, list) and len(expected) == len(claimed):
        for k, (claimed_item, expected_item) in enumerate(zip(claimed, expected, strict=True)):
            name = expected_item.get("name", k) if isinstance(expected_item, dict) else k
            yield from _find_differences(claimed_item, expected_item, f"{location}[{name}]")
    elif not _is_same_value(claimed, expected):
        yield f"{location} is {format_value(claimed)} where {format_value(expected)} follows"


def _is_same_value(claimed: Any, expected: Any) -> bool:
    """Return whether two values are equal and of one type: 3.0 is not 3, and True is not 1.

    Calibrated numbers may differ a little.
    """
    if type(claimed) is not type(expected):
        return False
    is_close = isinstance(expected, float) and math.isclose(claimed, expected, rel_tol=_TOLERANCE)
    return is_close or bool(claimed == expected)


def _find_feature_faults(public: PublicFacts, arrays: Arrays) -> Iterator[str]:
    """Yield why the item features are not valid, or not those behind the item factors.

    Item factors that were made from k feature columns have at least k columns which are linear
    combinations of these and a constant.

    Args:
        public: public facts of the prepared ratings.
        arrays: the arrays of the file.
    """
    if fault := find_coding_fault(public, arrays[FEATURES_ARRAY]):
        yield f"arrays.{FEATURES_ARRAY}: {fault}"
    if "items" in arrays and arrays["items"].ndim == 2:
        basis = np.column_stack([np.ones(public.items), arrays[FEATURES_ARRAY]])
        items = arrays["items"]
        residuals = items - basis @ np.linalg.lstsq(basis, items, rcond=None)[0]
        norms = (np.linalg.norm(matrix, axis=0) for matrix in (residuals, items))
        # A residual of almost no length shows that a column is such a combination.
        if sum(a <= 1e-6 * b for a, b in zip(*norms, strict=True)) < public.columns:
            yield f"arrays.items was made of other features than arrays.{FEATURES_ARRAY} holds"


def _find_report_faults(ideal: Guarantee, arrays: Arrays) -> Iterator[str]:
    """Yield what is wrong with reports under local privacy.

    Cells must be in order without repetition, and their number must be plausible.

    Args:
        ideal: the guarantee with ideal noise, which has a single release.
        arrays: the arrays of the file.
    """
    ((_, release),) = ideal.releases
    users, items = ideal.public.shape
    cells = arrays["users"].astype(np.int64) * items + arrays["items"]
    if not (np.diff(cells) > 0).all():
        yield "arrays.users and arrays.items: cells are repeated or out of order"
    if None in release.shape:
        max_ratings = int(np.bincount(arrays["users"]).max(initial=0))
        if ideal.public.cap is not None and max_ratings > ideal.public.cap:
            yield (
                f"arrays.users has {max_ratings} ratings of one user where the cap is"
                f" {ideal.public.cap}"
            )
    elif isinstance(release, MatrixChannel):
        # Cells report independently, each with a chance between the smallest and largest of these.
        from scipy.stats import binom

        chances = [math.fsum(row[1:]) for row in release.channel]
        lower_tail = binom.cdf(len(cells), users * items, min(chances))
        upper_tail = binom.sf(len(cells) - 1, users * items, max(chances))
        if min(lower_tail, upper_tail) < 2.0**-NEGLIGIBLE_CHANCE_BITS:
            summary = f"{len(cells):,} reports of {users:,} users and {items:,} items"
            yield (
                f"data.users and data.items: {summary} are too"
                f" {'few' if lower_tail < upper_tail else 'many'}"
            )
