"""What a released file says of itself, made again from its card and held against it.

The card names the mechanism with its revision and settings, the public facts and the catalogue:
from these the guarantee, every release and the certified value follow. Nothing on the card is
believed that can be computed. A digest shows edits of what cannot, but for somebody who writes a
new one: a file proves what its numbers are worth if they were drawn as it says, not that they were.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core import registry
from dpmc_core.errors import DpmcError, InvalidSetting, NotVerified, shown
from dpmc_core.model import Mechanism
from dpmc_core.privacy import Guarantee, Publishes, SymbolChannel, Trust
from dpmc_core.ratings import Catalogue, Origin, PublicFacts
from dpmc_core.release import (
    USER_ROWS,
    card_of,
    check_covered,
    check_steps,
    digest,
    direct,
    on_grid,
    reads_of,
)
from dpmc_core.settings import parse_setting, settings_of
from dpmc_core.version import version

_CLOSE = 1e-9  # relative: another release of SciPy may calibrate the last digits otherwise
_FLOAT, _TEXT = "f", "U"
_NAMES = ("item_ids", "user_ids")

Found = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Verified:
    """A file that holds what its card says. notes: what a reader should know of it."""

    mechanism: Mechanism
    guarantee: Guarantee
    card: Mapping[str, Any]
    notes: tuple[str, ...]


def verify(path: str | Path) -> Verified:
    """Compute the certificate of a released file again and check its arrays.

    Raises NotVerified with every field that is not as it follows from the others, DpmcError where
    the file is no release at all.
    """
    place = Path(path)
    card, arrays = _read(place)
    try:
        mechanism, guarantee, faults = _held(card, arrays)
    except NotVerified as error:
        raise NotVerified(place.name, error.faults) from None
    if not faults and card.get("sha256") != digest(card):
        faults = [f"sha256 is {shown(card.get('sha256'))}, which is not that of the card"]
    if faults:
        raise NotVerified(place.name, faults)
    written = str(card["versions"]["dpmc-lab"])
    notes = () if written == version() else (f"written by version {written}, this is {version()}",)
    return Verified(mechanism, guarantee, card, notes)


def _read(path: Path) -> tuple[dict[str, Any], Found]:
    if not path.is_file():
        raise DpmcError(f"there is no file {path}")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        card = json.loads(str(arrays.pop("card")))
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile, zipfile.error):
        card = None
    if not isinstance(card, dict):
        raise DpmcError(f"{path} is no file that 'dpmc release' wrote: it has no card to verify")
    return card, arrays


def _held(card: Mapping[str, Any], arrays: Found) -> tuple[Mechanism, Guarantee, list[str]]:
    """The mechanism and guarantee that the card names, and what does not follow from them.

    Raises NotVerified where nothing can be computed.
    """
    mechanism = _part("mechanism", lambda: _mechanism(card))
    public = _part("data", lambda: _facts(card["data"]))
    catalogue = _part("catalogue", lambda: _catalogue(card["catalogue"]))
    plain = _part("settings", lambda: mechanism.guarantee(public))
    _part("data.prepare", lambda: check_steps(reads_of(card["data"]["prepare"]), plain))
    _part("mechanism", lambda: check_covered(mechanism, plain))
    observed = _part("releases", lambda: _observed(card, plain, arrays))
    on_card = card.get("arrays")
    if not isinstance(on_card, dict) or not all(isinstance(v, dict) for v in on_card.values()):
        raise NotVerified("", ["arrays is not a description of each array"])
    if set(on_card) != set(arrays):
        name = min(set(on_card) ^ set(arrays))
        where = "in the file and not on the card" if name in arrays else "not in the file"
        raise NotVerified("", [f"arrays.{name} is {where}"])
    described = {name: (array, str(on_card[name].get("what"))) for name, array in arrays.items()}
    rest = (card["data"]["prepare"], catalogue, described, str(card.get("predictions")))
    guarantee, wanted = _part("releases", lambda: card_of(mechanism, public, observed, *rest))
    told = {name: value for name, value in card.items() if name not in ("versions", "sha256")}
    faults = list(_differences(told, json.loads(json.dumps(wanted)), ""))
    if not isinstance(card.get("versions"), dict) or "dpmc-lab" not in card["versions"]:
        faults.append("versions.dpmc-lab is missing")
    faults += _part("arrays", lambda: _array_faults(guarantee, catalogue, observed, arrays))
    return mechanism, guarantee, faults


def _part(field: str, made: Any) -> Any:
    """What a part of the card gives. Raises NotVerified that names the field."""
    try:
        return made()
    except NotVerified:
        raise
    except KeyError as error:
        raise NotVerified("", [f"{field}: {error} is missing"]) from None
    except DpmcError as error:
        raise NotVerified("", [f"{field}: {error}"]) from None
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError):
        raise NotVerified("", [f"{field} is not as a release writes it"]) from None


def _mechanism(card: Mapping[str, Any]) -> Mechanism:
    cls = registry.get(str(card["mechanism"]))
    if card["revision"] != cls.revision:
        written = dict(card.get("versions") or {}).get("dpmc-lab", "unknown")
        raise NotVerified(
            "",
            [
                f"revision of {cls.id} is {shown(card['revision'])}, and this version computes"
                f" revision {cls.revision} alone: verify with the version that wrote it ({written})"
            ],
        )
    declared = {s.name: s for s in settings_of(cls)}
    if set(card["settings"]) != set(declared):
        name = min(set(card["settings"]) ^ set(declared))
        raise InvalidSetting(
            name, "a setting that is on the card" if name in declared else "known", name
        )
    values = {
        name: parse_setting(cls, name, value)
        if isinstance(value, str) and declared[name].type is not str
        else value
        for name, value in card["settings"].items()
    }
    return registry.create(cls.id, **values)


def _facts(data: Mapping[str, Any]) -> PublicFacts:
    return PublicFacts(**{name: data[name] for name in ("users", "items", "low", "high", "cap")})


def _catalogue(found: Mapping[str, Any]) -> Catalogue:
    origin = Origin(found["origin"])
    if origin is Origin.READ or not isinstance(found["users_listed"], bool):
        raise ValueError
    return Catalogue(origin, str(found["source"]), found["users_listed"])


def _observed(card: Mapping[str, Any], plain: Guarantee, arrays: Found) -> int:
    """The number of ratings, where the shape of a release shows it; else any number does."""
    for (_, release), line in zip(plain.releases, card["releases"], strict=True):
        if None in release.shape:
            count = len(arrays["symbols"]) if "symbols" in arrays else line["coordinates"]
            if type(count) is not int or not 1 <= count <= math.prod(plain.public.shape):
                raise NotVerified("", [f"releases: coordinates of '{release.query}' is {count!r}"])
            return count
    return 1


def _differences(told: Any, wanted: Any, place: str) -> Iterator[str]:
    """Each field that is another than it is when it is made again."""
    if isinstance(wanted, dict) and isinstance(told, dict):
        for name in [*wanted, *(name for name in told if name not in wanted)]:
            at = f"{place}.{name}" if place else str(name)
            if name not in told:
                yield f"{at} is missing"
            elif name not in wanted:
                yield f"{at} does not belong there"
            else:
                yield from _differences(told[name], wanted[name], at)
    elif isinstance(wanted, list) and isinstance(told, list) and len(wanted) == len(told):
        for k, (one, other) in enumerate(zip(told, wanted, strict=True)):
            name = other.get("name", k) if isinstance(other, dict) else k
            yield from _differences(one, other, f"{place}[{name}]")
    elif not _same(told, wanted):
        yield f"{place} is {shown(told)} where {shown(wanted)} follows"


def _same(told: Any, wanted: Any) -> bool:
    numbers = (int, float)
    if isinstance(told, bool) or isinstance(wanted, bool) or not isinstance(wanted, numbers):
        return type(told) is type(wanted) and bool(told == wanted)
    if isinstance(told, int) and isinstance(wanted, int):
        return told == wanted
    return isinstance(told, numbers) and math.isclose(told, wanted, rel_tol=_CLOSE)


def _array_faults(
    guarantee: Guarantee, catalogue: Catalogue, observed: int, arrays: Found
) -> list[str]:
    """What is wrong with the arrays: their names, shapes, types and numbers."""
    users, items = guarantee.public.shape
    local = guarantee.trust is Trust.LOCAL
    if local:
        wanted = {"users", "items", "symbols"}
    elif guarantee.publishes is Publishes.MATRIX:
        wanted = {"matrix"} if "matrix" in arrays else {"left", "right"}
    else:
        wanted = {"number"} if "number" in arrays else {"items"}
    faults = [f"arrays.{name} is missing" for name in sorted(wanted - set(arrays))]
    if faults:
        return faults
    if local:
        return [
            *_report_faults(guarantee, observed, arrays),
            *_name_faults(guarantee, catalogue, arrays),
        ]
    sizes: dict[str, tuple[int | None, ...]] = {
        "matrix": (users, items),
        "left": (users, None),
        "right": (items, None),
        "items": (items, 1 if guarantee.publishes is Publishes.ITEM_COUNTS else None),
        "number": (1,),
    }
    for name, array in arrays.items():
        at = f"arrays.{name}"
        if name in _NAMES:
            continue
        size = sizes.get(name)
        if size is not None and not _fits(array, size):
            want = " x ".join("any" if n is None else str(n) for n in size)
            faults.append(f"{at}: its shape is {array.shape} where {want} follows")
        elif array.dtype != np.float64 and (size is not None or array.dtype.kind not in "iu"):
            faults.append(f"{at}: its type is {array.dtype} where float64 follows")
        elif not np.isfinite(array).all():
            faults.append(f"{at} has values that are not finite")
        else:
            release = direct(guarantee, name)
            if release is not None and not on_grid(release, array):
                faults.append(f"{at} has values off the grid of '{release.query}'")
    if "left" in arrays and not faults and arrays["left"].shape[1] != arrays["right"].shape[1]:
        faults.append("arrays.left and arrays.right have different numbers of columns")
    return faults + _name_faults(guarantee, catalogue, arrays)


def _fits(array: NDArray[Any], size: tuple[int | None, ...]) -> bool:
    return array.ndim == len(size) and all(
        want is None or want == got for want, got in zip(size, array.shape, strict=True)
    )


def _report_faults(guarantee: Guarantee, observed: int, arrays: Found) -> list[str]:
    """The reports of users under local privacy: cells in order, and symbols that exist."""
    ((_, release),) = guarantee.releases
    columns = {name: arrays[name] for name in ("users", "items", "symbols")}
    shapes = Counter(array.shape for array in columns.values())
    usual = shapes.most_common(1)[0][0]
    for name, array in columns.items():
        if array.shape != usual or array.ndim != 1:
            return [f"arrays.{name}: its shape is {array.shape} where {usual[-1:]} follows"]
    count = len(columns["symbols"])
    if None in release.shape and count != observed:
        return [f"arrays.symbols has {count} values where {observed} follow"]
    faults = []
    first, last = 1, 1  # of bits, ones are reported
    if isinstance(release, SymbolChannel):
        last = len(release.levels)
    elif None in release.shape:
        first, last = 0, 1
    users, items = guarantee.public.shape
    limits = {
        "users": (np.int32, 0, users - 1),
        "items": (np.int32, 0, items - 1),
        "symbols": (np.uint8, first, last),
    }
    for name, (kind, low, high) in limits.items():
        array = columns[name]
        if array.dtype != kind:
            faults.append(
                f"arrays.{name}: its type is {array.dtype} where {np.dtype(kind)} follows"
            )
        elif count and (array.min() < low or array.max() > high):
            faults.append(f"arrays.{name} has values outside {low}..{high}")
    if faults:
        return faults
    cells = columns["users"].astype(np.int64) * items + columns["items"]
    apart = bool((np.diff(cells) > 0).all())
    return [] if apart else ["arrays.users and arrays.items: cells are repeated or out of order"]


def _name_faults(guarantee: Guarantee, catalogue: Catalogue, arrays: Found) -> list[str]:
    """Ids: as many as there are rows, each once, and there only where they are public."""
    faults = []
    rows = {"item_ids": guarantee.public.items, "user_ids": guarantee.public.users}
    allowed = {
        "item_ids": catalogue.named,
        "user_ids": catalogue.named and catalogue.users_listed and bool(USER_ROWS & set(arrays)),
    }
    if catalogue.origin is Origin.GIVEN and "item_ids" not in arrays and "number" not in arrays:
        faults.append("arrays.item_ids is missing")
    for name in _NAMES:
        if name not in arrays:
            continue
        array = arrays[name]
        if not allowed[name]:
            faults.append(f"arrays.{name} does not belong there: the catalogue is not public")
        elif array.dtype.kind != _TEXT or array.shape != (rows[name],):
            faults.append(
                f"arrays.{name} must be {rows[name]} texts, got {array.dtype} {array.shape}"
            )
        elif len(np.unique(array)) != len(array):
            faults.append(f"arrays.{name} has an id twice")
    return faults
