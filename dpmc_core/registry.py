"""Every method, baselines and mechanisms alike, by its command-line id."""

from __future__ import annotations

import pkgutil
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from dpmc_core import mechanisms as files
from dpmc_core.errors import (
    DpmcError,
    InvalidSetting,
    check_number,
    parse_number,
    unknown_name_error,
)
from dpmc_core.model import Mechanism, Task
from dpmc_core.settings import PublishedSettings, list_settings, serialise_setting
from dpmc_core.style import Style, pick_style

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "dpmc_lab.mechanisms"  # where an installed package names its mechanisms

# The best methods without privacy, against which the price of privacy is measured.
NONPRIVATE_REFERENCES: Mapping[Task, str] = {
    Task.BINARY: "reference-binary",
    Task.RATINGS: "reference-ratings",
    Task.RANKING: "reference-ranking",
}

# Baselines that use public facts and a user's own ratings, for methods that use both.
WITHOUT_OTHERS_BASELINES: Mapping[Task, str] = {
    Task.RATINGS: "alone",
    Task.RANKING: "alone-ranking",
}

# Methods with this baseline may have any of these, whichever is best without its noise.
BASELINE_ALTERNATIVES: Mapping[str, tuple[str, ...]] = {
    "private-own-mean": ("private-constant", "private-own-mean", "private-alone")
}

_REQUIRED_VARIABLES = {
    "id": (str, "its command-line name"),
    "name": (str, "what it is called on screen"),
    "task": (Task, "what it predicts, a Task"),
    "nonprivate_counterpart": (str, "the id of the same method without privacy"),
    "baseline": (str, "the id of the baseline that it must beat"),
    "revision": (int, "1, 2, ..., raised when results change"),
}


def find_mechanism_classes(module: ModuleType) -> list[type[Mechanism]]:
    """Return the classes with an id that a module defines, in order."""
    classes = (value for value in vars(module).values() if isinstance(value, type))
    return [cls for cls in classes if cls.__module__ == module.__name__ and "id" in vars(cls)]


class _Mechanisms(Mapping[str, type[Mechanism]]):
    """Methods of this package, then of installed packages, then those added by `add_mechanisms`.

    Until all methods are requested, a single one is loaded without the others. Packages are
    imported only then, because they import this one themselves. If a package cannot be loaded,
    `broken` holds a sentence about it, and the other methods work without it.
    """

    def __init__(self, find_classes: Callable[[str], Iterable[type[Mechanism]]]) -> None:
        self._find_classes = find_classes
        self._loaded_early: dict[str, type[Mechanism]] = {}
        self._classes: Mapping[str, type[Mechanism]] | None = None
        self._lock = threading.RLock()
        self.broken: tuple[str, ...] = ()

    def __getitem__(self, id: str) -> type[Mechanism]:
        # One mechanism is found without loading the modules of all others.
        if self._classes is None:
            matching = self._loaded_early.get(id) or next(
                (candidate for candidate in self._find_classes(id) if candidate.id == id), None
            )
            if matching is not None:
                self._loaded_early[id] = matching
                return matching
        return self._load_all()[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load_all())

    def __len__(self) -> int:
        return len(self._load_all())

    def replace(
        self, removed: Collection[type[Mechanism]], added: Sequence[type[Mechanism]]
    ) -> None:
        """Replace some classes by others, all or none of them.

        Raises:
            DpmcError: if a class is no valid mechanism or its id is taken.
        """
        with self._lock:
            classes = {id: cls for id, cls in self._load_all().items() if cls not in removed}
            for cls in added:
                _check_class(cls)
                if cls.id in classes:
                    owner = classes[cls.id].__name__
                    raise DpmcError(f"the id '{cls.id}' of {cls.__name__} is taken by {owner}")
                classes[cls.id] = cls
            for cls in added:
                _check_counterparts(cls, classes)
            self._classes = classes

    def _load_all(self) -> Mapping[str, type[Mechanism]]:
        """Load all methods of this package and of installed packages, once."""
        with self._lock:
            if self._classes is None:
                classes = sorted(
                    self._find_classes(""),
                    key=lambda cls: ([*Task].index(cls.task), cls.list_order),
                )
                self._classes = {cls.id: cls for cls in classes}
                self._load_packages()
            return self._classes

    def _load_packages(self) -> None:
        """Add the mechanisms of installed packages; a package that fails is noted in `broken`."""
        from importlib.metadata import entry_points

        points: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=ENTRY_POINTS):
            points.setdefault(point.dist.name if point.dist else point.value, []).append(point)
        for package, package_points in sorted(points.items()):
            try:
                # `_classes` is set by now, so this does not load everything again.
                self.replace(removed=(), added=[point.load() for point in package_points])
            except (Exception, SystemExit) as error:
                reason = (
                    error if isinstance(error, DpmcError) else f"{type(error).__name__}: {error}"
                )
                self.broken += (f"mechanisms of the package {package} cannot be loaded: {reason}",)


def _find_in_files(id: str) -> Iterator[type[Mechanism]]:
    """Yield the classes with an `id` in the files of `mechanisms`, in the order of the files.

    If a file mentions this id in its text, its classes come first, so that a caller who looks for
    one method need not import the other files.
    """

    def lacks_id(name: str) -> bool:  # as a sort key, False comes first
        with suppress(OSError):  # an archive without source
            text = pkgutil.get_data(files.__name__, f"{name}.py") or b""
            return f'id = "{id}"'.encode() not in text
        return True

    for name in sorted(
        (module.name for module in pkgutil.iter_modules(files.__path__)), key=lacks_id
    ):
        yield from find_mechanism_classes(import_module(f"{files.__name__}.{name}"))


# The command line, the app, the contract test and the table of guarantees read this mapping, task
# by task in the order of `list_order`.
MECHANISMS = _Mechanisms(_find_in_files)


def add_mechanisms(*mechanisms: type[Mechanism]) -> None:
    """Register methods by their ids beside those of this package, all or none of them.

    Raises:
        DpmcError: if a class variable is missing, a class is no frozen keyword-only dataclass whose
            fields are settings, an id is taken, or the nonprivate counterpart or the baseline is no
            method for the same task.
    """
    MECHANISMS.replace(removed=(), added=mechanisms)


def get_mechanism(id: str) -> type[Mechanism]:
    """Return the class of a method.

    Raises:
        InvalidSetting: if the id is unknown, with the closest ids as a hint.
    """
    if not isinstance(id, str) or id not in MECHANISMS:
        unknown = unknown_name_error("mechanism", id, MECHANISMS, listing_command="dpmc list")
        hint = "; ".join([unknown.hint, *MECHANISMS.broken])
        raise InvalidSetting(unknown.field, unknown.limit, id, hint)
    return MECHANISMS[id]


def has_setting(mechanism: type[Mechanism], name: str) -> bool:
    """Return whether a mechanism class declares a setting of that name."""
    return any(s.name == name for s in list_settings(mechanism))


def adds_noise(mechanism: type[Mechanism]) -> bool:
    """Return whether a method has a privacy budget; one without a budget adds no noise."""
    return has_setting(mechanism, "epsilon")


def list_private_mechanisms(task: Task) -> tuple[str, ...]:
    """Return the ids of a task's mechanisms with an epsilon, in the order of `MECHANISMS`."""
    return tuple(id for id, cls in MECHANISMS.items() if cls.task is task and adds_noise(cls))


def list_suitable_mechanisms(*, clicks: bool = False) -> tuple[str, ...]:
    """Return the ids of the private mechanisms that make sense for ratings, or for clicks.

    >>> "private-taste" in list_suitable_mechanisms()
    True

    Clicks (ratings that are all 1) can only be ranked; ratings can be ranked too, as interactions.
    """
    ranking = list_private_mechanisms(Task.RANKING)
    return (
        ranking
        if clicks
        else list_private_mechanisms(Task.BINARY) + list_private_mechanisms(Task.RATINGS) + ranking
    )


def list_tasks(ids: Iterable[str]) -> list[Task]:
    """Return the tasks of some mechanisms, in their order and without repetition."""
    return list(dict.fromkeys(get_mechanism(id).task for id in ids))


def create(
    id: str,
    *,
    epsilon: float | str | None = None,
    delta: float | str | None = None,
    **settings: Any,
) -> Mechanism:
    """Create a mechanism with settings, each a value or its text on the command line.

    >>> create("input-flip", epsilon=1, link="probit:0.5").link
    Probit(sigma=0.5)

    Args:
        id: the mechanism's id.
        epsilon: privacy budget; always checked, but passed on only if the class has this setting.
        delta: the delta of the privacy budget; treated like `epsilon`.
        settings: further settings by name; `dpmc list ID` shows their units and limits.

    Raises:
        InvalidSetting: if the id or a setting is unknown, a required setting is missing, or a value
            is invalid.
    """
    cls = get_mechanism(id)
    declared = {s.name: s for s in list_settings(cls)}
    values = dict(settings)
    delta_limits: Any = {"at_least": 0, "below": 1}
    for name, value, limits in (("epsilon", epsilon, {"above": 0}), ("delta", delta, delta_limits)):
        if value is not None:
            value = parse_number(float, value, name) if isinstance(value, str) else value
            check_number(name, value, **limits)
            if name in declared:
                values[name] = value
    for name in values:
        if name not in declared:
            raise unknown_name_error(f"setting of {id}", name, declared)
    for name, s in declared.items():
        if s.default is MISSING and name not in values:
            raise InvalidSetting(name, f"given: {s.info.help}" if s.info.help else "given", None)
    return cls(**values)


def get_published_settings(id: str) -> PublishedSettings:
    """Return the settings that a method has in its paper; none if it comes from no paper."""
    return get_mechanism(id).published_settings


def get_short_name(id: str) -> str:
    """Return the name of a method for narrow columns."""
    return get_mechanism(id).short or get_mechanism(id).name


def get_style(id: str) -> Style:
    """Return the style of a method; one without a style, or unknown, gets one by its id."""
    return (MECHANISMS[id].style if id in MECHANISMS else None) or pick_style(id)


def find_changed_settings(id: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a method's settings, as plain JSON values, that differ from its defaults.

    All settings of an unknown method are returned.
    """
    declared = list_settings(MECHANISMS[id]) if id in MECHANISMS else ()
    defaults = {s.name: serialise_setting(s.default) for s in declared}
    return {
        name: value
        for name, value in settings.items()
        if name not in defaults or defaults[name] != value
    }


def _check_class(candidate: object) -> None:
    """Raise DpmcError unless an object is a class that has the form of a mechanism."""
    if not isinstance(candidate, type):
        raise DpmcError(f"a mechanism must be a class, got {candidate!r}")
    name = candidate.__name__
    if not issubclass(candidate, Mechanism):
        raise DpmcError(f"{name} must be a subclass of dpmc_core.model.Mechanism")
    cls: Any = candidate
    for variable, (kind, meaning) in _REQUIRED_VARIABLES.items():
        value = getattr(cls, variable, None)
        if not isinstance(value, kind) or not value or (kind is int and cls.revision < 1):
            suffix = "" if value is None else f", got {value!r}"
            raise DpmcError(f"{name} needs the class variable {variable} ({meaning}){suffix}")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", cls.id):
        raise DpmcError(f"the id of {name} must be words like my-method, got {cls.id!r}")
    for method in ("guarantee", "fit"):
        if getattr(cls, method) is getattr(Mechanism, method):
            raise DpmcError(f"{name} needs the method {method}")
    dataclass_params = vars(cls).get("__dataclass_params__")
    if (
        dataclass_params is None
        or not dataclass_params.frozen
        or not all(f.kw_only for f in fields(cls))
    ):
        raise DpmcError(f"{name} must be a @mechanism: a @dataclass(frozen=True, kw_only=True)")
    try:
        declared = list_settings(cls)
    except Exception as error:
        raise DpmcError(f"the settings of {name} cannot be read: {error}") from None
    undeclared = {f.name for f in fields(cls)} - {s.name for s in declared}
    if undeclared:
        raise DpmcError(
            f"the field {min(undeclared)} of {name} must be declared with setting(...), or ClassVar"
        )
    for s in declared:
        if s.default is MISSING and s.name != "epsilon":
            raise DpmcError(f"the setting {s.name} of {name} needs a default")
        if not (s.type in (bool, int, float, str) or s.info.choices or s.info.parse):
            raise DpmcError(
                f"the setting {s.name} of {name} must be an int, float, bool, str or Enum, or have"
                " parse=, which makes it from text"
            )


def _check_counterparts(cls: type[Mechanism], classes: Mapping[str, type[Mechanism]]) -> None:
    """Raise DpmcError unless counterpart and baseline are suitable methods among the classes."""
    for role in ("nonprivate_counterpart", "baseline"):
        id = getattr(cls, role)
        counterpart = classes.get(id)
        qualifier = "without noise " if role == "nonprivate_counterpart" else ""
        if (
            counterpart is None
            or counterpart.task is not cls.task
            or (qualifier and adds_noise(counterpart))
        ):
            raise DpmcError(
                f"the {role} of {cls.__name__} must be a method {qualifier}that predicts"
                f" {cls.task.value} too, got {id!r}"
            )


def list_possible_baselines(cls: type[Mechanism], steps: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of the baselines that a method may have on ratings with this preparation.

    There are several only for the baselines in `BASELINE_ALTERNATIVES`. For other methods that use
    item features, it is the task's baseline without other users' data, if there is one.

    Args:
        cls: the class of the method.
        steps: the preparation steps as texts.
    """
    with_features = cls.uses_item_features and has_features_step(steps)
    if cls.baseline in BASELINE_ALTERNATIVES:
        return tuple(
            id
            for id in BASELINE_ALTERNATIVES[cls.baseline]
            if with_features or not get_mechanism(id).uses_item_features
        )
    return (
        WITHOUT_OTHERS_BASELINES.get(cls.task, cls.baseline) if with_features else cls.baseline,
    )


def choose_baseline(
    cls: type[Mechanism], steps: Iterable[str], errors: Mapping[str, float] = MappingProxyType({})
) -> str:
    """Choose the baseline of a method: of several, the one with the least error without noise.

    One data set and task thus have the same baseline at every epsilon.

    Args:
        cls: the class of the method.
        steps: the preparation steps as texts.
        errors: errors of nonprivate methods by id. Baselines without an error here are not chosen,
            unless none has one; then it is the last.
    """
    ids = list_possible_baselines(cls, steps)
    evaluated = [id for id in ids if get_mechanism(id).nonprivate_counterpart in errors]
    return min(
        evaluated, key=lambda id: errors[get_mechanism(id).nonprivate_counterpart], default=ids[-1]
    )


def list_baselines(cls: type[Mechanism], steps: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of the baselines that run beside a method.

    If there are several, they include the counterparts without noise by which `choose_baseline`
    chooses, and with item features the baseline without other users' data.

    Args:
        cls: the class of the method.
        steps: the preparation steps as texts.
    """
    baselines = list_possible_baselines(cls, steps)
    if len(baselines) > 1:
        baselines += tuple(get_mechanism(id).nonprivate_counterpart for id in baselines)
        if has_features_step(steps):
            baselines += (WITHOUT_OTHERS_BASELINES[cls.task],)
    return baselines


def list_comparison_methods(cls: type[Mechanism]) -> tuple[str, ...]:
    """Return the ids of all methods to which a method is compared.

    These are its baselines with and without item features, its nonprivate counterpart and the
    nonprivate reference of its task.
    """
    baselines = list_baselines(cls, []) + list_baselines(cls, ["features"])
    return *baselines, cls.nonprivate_counterpart, NONPRIVATE_REFERENCES[cls.task]


def has_features_step(steps: Iterable[str]) -> bool:
    """Return whether a preparation uses item features."""
    return any(step.partition("=")[0] == "features" for step in steps)
