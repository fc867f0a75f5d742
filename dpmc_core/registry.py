"""Every method by its command-line id: baselines and mechanisms alike."""

from __future__ import annotations

import dataclasses
import pkgutil
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from dpmc_core import mechanisms as files
from dpmc_core.errors import DpmcError, InvalidSetting, check_number, unknown_name
from dpmc_core.model import Mechanism, Task
from dpmc_core.settings import AsPublished, settings_of, show_setting
from dpmc_core.style import Style, spare

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "dpmc_lab.mechanisms"  # where an installed package names its mechanisms

# The best this program does without privacy: what the price of privacy is measured against.
REFERENCES: Mapping[Task, str] = {
    Task.BINARY: "reference-binary",
    Task.RATINGS: "reference-ratings",
    Task.RANKING: "reference-ranking",
}

# What public facts and one's own ratings reach: the guess beside methods that use both.
ALONE: Mapping[Task, str] = {Task.RATINGS: "alone", Task.RANKING: "alone-ranking"}

# Methods with this baseline may have any of these, whichever does best without its noise.
BASELINES: Mapping[str, tuple[str, ...]] = {
    "private-own-mean": ("private-constant", "private-own-mean", "private-alone")
}

_NEEDED = {
    "id": (str, "its command-line name"),
    "name": (str, "what it is called on screen"),
    "task": (Task, "what it predicts, a Task"),
    "twin": (str, "the id of the same method without privacy"),
    "floor": (str, "the id of the guess beside it"),
    "revision": (int, "1, 2, ..., raised when results change"),
}


def methods_in(module: ModuleType) -> list[type[Mechanism]]:
    """The classes with an id that a module defines, in order."""
    classes = (value for value in vars(module).values() if isinstance(value, type))
    return [cls for cls in classes if cls.__module__ == module.__name__ and "id" in vars(cls)]


class _Mechanisms(Mapping[str, type[Mechanism]]):
    """Those of this package, then of installed packages, then what `add` was given.

    Until somebody looks at all of them, one is had without the others. Packages are asked then, not
    before, because they import this one themselves. What is wrong with a package is kept in
    `broken`, a sentence each: the others work without it.

    own: the methods of this package, those likely to have an id first.
    """

    def __init__(self, own: Callable[[str], Iterable[type[Mechanism]]]) -> None:
        self._own, self._early = own, dict[str, type[Mechanism]]()
        self._classes: Mapping[str, type[Mechanism]] | None = None
        self._lock = threading.RLock()
        self.broken: tuple[str, ...] = ()

    def __getitem__(self, id: str) -> type[Mechanism]:
        if self._classes is None:
            matching = self._early.get(id) or next(
                (candidate for candidate in self._own(id) if candidate.id == id), None
            )
            if matching is not None:
                self._early[id] = matching
                return matching
        return self._all()[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def replace(
        self, removed: Collection[type[Mechanism]], added: Sequence[type[Mechanism]]
    ) -> None:
        """Put `added` in the place of `removed`, all or none. Raises DpmcError."""
        with self._lock:
            classes = {id: cls for id, cls in self._all().items() if cls not in removed}
            for cls in added:
                _check(cls)
                if cls.id in classes:
                    taken = classes[cls.id].__name__
                    raise DpmcError(f"the id '{cls.id}' of {cls.__name__} is taken by {taken}")
                classes[cls.id] = cls
            for cls in added:
                _check_company(cls, classes)
            self._classes = classes

    def _all(self) -> Mapping[str, type[Mechanism]]:
        with self._lock:
            if self._classes is None:
                classes = sorted(self._own(""), key=lambda cls: (_TASKS.index(cls.task), cls.place))
                self._classes = {cls.id: cls for cls in classes}
                self._ask()
            return self._classes

    def _ask(self) -> None:
        from importlib.metadata import entry_points

        points: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=ENTRY_POINTS):
            points.setdefault(point.dist.name if point.dist else point.value, []).append(point)
        for package, package_points in sorted(points.items()):
            try:
                self.replace((), [point.load() for point in package_points])
            except (Exception, SystemExit) as error:
                why = error if isinstance(error, DpmcError) else f"{type(error).__name__}: {error}"
                self.broken += (f"mechanisms of the package {package} cannot be loaded: {why}",)


def _of_files(id: str) -> Iterator[type[Mechanism]]:
    """A method of this package is a class with an `id` in a file of `mechanisms`.

    File by file, first what says `id`: text is only where to look first, classes tell.
    """

    def silent(name: str) -> bool:
        with suppress(OSError):  # an archive without source
            text = pkgutil.get_data(files.__name__, f"{name}.py") or b""
            return f'id = "{id}"'.encode() not in text
        return True

    for name in sorted(
        (module.name for module in pkgutil.iter_modules(files.__path__)), key=silent
    ):
        yield from methods_in(import_module(f"{files.__name__}.{name}"))


# The command line, the app, the contract test and the table of guarantees read this mapping: task
# by task, in the order of their `place`.
_TASKS = list(Task)
MECHANISMS = _Mechanisms(_of_files)


def add(*mechanisms: type[Mechanism]) -> None:
    """Make methods known by their ids beside those of this package, all or none of them.

    Raises DpmcError for what is missing or taken: class variables, a frozen keyword-only dataclass
    whose fields are settings, and a twin and a floor without noise for the same task.
    """
    MECHANISMS.replace((), mechanisms)


def get(id: str) -> type[Mechanism]:
    """The class of a method. Raises InvalidSetting with the nearest names."""
    if id not in MECHANISMS:
        unknown = unknown_name("mechanism", id, MECHANISMS, listed="dpmc list")
        hint = "; ".join([unknown.hint, *MECHANISMS.broken])
        raise InvalidSetting(unknown.field, unknown.limit, id, hint)
    return MECHANISMS[id]


def has_setting(mechanism: type[Mechanism], name: str) -> bool:
    """Whether the class declares a setting of that name."""
    return any(s.name == name for s in settings_of(mechanism))


def adds_noise(mechanism: type[Mechanism]) -> bool:
    """Whether it has a privacy budget; a method without one adds no noise."""
    return has_setting(mechanism, "epsilon")


def noisy(task: Task) -> tuple[str, ...]:
    """Ids of the mechanisms with an epsilon for a task, in the order above."""
    return tuple(id for id, cls in MECHANISMS.items() if cls.task is task and adds_noise(cls))


def offered(*, clicks: bool = False) -> tuple[str, ...]:
    """Ids of the mechanisms that make sense for ratings, or for clicks.

    Clicks (all of value 1) can only be ranked; ratings can be ranked too, as interactions.
    """
    ranking = noisy(Task.RANKING)
    return ranking if clicks else noisy(Task.BINARY) + noisy(Task.RATINGS) + ranking


def tasks(ids: Iterable[str]) -> list[Task]:
    """What these mechanisms predict, in their order."""
    return list(dict.fromkeys(get(id).task for id in ids))


def create(
    id: str, *, epsilon: float | None = None, delta: float | None = None, **settings: Any
) -> Mechanism:
    """An instance; epsilon and delta are checked always and reach only the classes that have them.

    Raises InvalidSetting for an unknown id or setting, a required one left out, or a bad value.
    """
    cls = get(id)
    if epsilon is not None:
        check_number("epsilon", epsilon, above=0)
    if delta is not None:
        check_number("delta", delta, at_least=0, below=1)
    declared = {s.name: s for s in settings_of(cls)}
    values = dict(settings)
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if value is not None and name in declared:
            values[name] = value
    for name in values:
        if name not in declared:
            raise unknown_name(f"setting of {id}", name, declared)
    for name, s in declared.items():
        if s.default is dataclasses.MISSING and name not in values:
            raise InvalidSetting(name, f"given: {s.info.help}" if s.info.help else "given", None)
    return cls(**values)


def published(id: str) -> AsPublished:
    """The settings that a method has in its paper; none for one that is nobody's."""
    return getattr(get(id), "published", Mechanism.published)


def short_name(id: str) -> str:
    """What a method is called in a narrow place."""
    return getattr(get(id), "short", "") or get(id).name


def style(id: str) -> Style:
    """How a method is drawn; one without a style, or not known here, the same way every time."""
    return getattr(MECHANISMS.get(id), "style", None) or spare(id)


def changed_settings(id: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of settings as plain JSON values, those that are not the method's defaults.

    Of a method unknown here: all of them.
    """
    declared = settings_of(MECHANISMS[id]) if id in MECHANISMS else ()
    defaults = {s.name: show_setting(s.default) for s in declared}
    return {
        name: value
        for name, value in settings.items()
        if name not in defaults or defaults[name] != value
    }


def _check(thing: object) -> None:
    """Raise DpmcError unless it is a class that has the form of a mechanism."""
    if not isinstance(thing, type):
        raise DpmcError(f"a mechanism must be a class, got {thing!r}")
    cls: Any = thing
    name = cls.__name__
    for variable, (kind, meaning) in _NEEDED.items():
        value = getattr(cls, variable, None)
        if not isinstance(value, kind) or not value or (kind is int and cls.revision < 1):
            got = "" if value is None else f", got {value!r}"
            raise DpmcError(f"{name} needs the class variable {variable} ({meaning}){got}")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", cls.id):
        raise DpmcError(f"the id of {name} must be words like my-method, got {cls.id!r}")
    for method in ("guarantee", "fit"):
        if not callable(getattr(cls, method, None)):
            raise DpmcError(f"{name} needs the method {method}")
    dataclass_params = vars(cls).get("__dataclass_params__")
    if (
        dataclass_params is None
        or not dataclass_params.frozen
        or not all(f.kw_only for f in dataclasses.fields(cls))
    ):
        raise DpmcError(f"{name} must be a @dataclass(frozen=True, kw_only=True)")
    try:
        declared = settings_of(cls)
    except Exception as error:
        raise DpmcError(f"the settings of {name} cannot be read: {error}") from None
    plain = {f.name for f in dataclasses.fields(cls)} - {s.name for s in declared}
    if plain:
        raise DpmcError(
            f"the field {min(plain)} of {name} must be declared with setting(...), or ClassVar"
        )
    for s in declared:
        if s.default is dataclasses.MISSING and s.name != "epsilon":
            raise DpmcError(f"the setting {s.name} of {name} needs a default")
        if not (s.type in (bool, int, float, str) or s.info.choices or s.info.parse):
            raise DpmcError(
                f"the setting {s.name} of {name} must be an int, float, bool, str or Enum, or have"
                " parse=, which makes it from text"
            )


def _check_company(cls: type[Mechanism], classes: Mapping[str, type[Mechanism]]) -> None:
    for part, id in (("twin", cls.twin), ("floor", cls.floor)):
        counterpart, kind = classes.get(id), "without noise " if part == "twin" else ""
        if (
            counterpart is None
            or counterpart.task is not cls.task
            or (kind and adds_noise(counterpart))
        ):
            raise DpmcError(
                f"the {part} of {cls.__name__} must be a method {kind}that predicts"
                f" {cls.task.value} too, got {id!r}"
            )


def floors_of(cls: type[Mechanism], steps: Iterable[str]) -> tuple[str, ...]:
    """Ids of the baselines that a method may have on ratings prepared so."""
    with_features = takes_facts(cls) and uses_facts(steps)
    if cls.floor in BASELINES:
        return tuple(id for id in BASELINES[cls.floor] if with_features or not takes_facts(get(id)))
    return (ALONE.get(cls.task, cls.floor) if with_features else cls.floor,)


def floor_of(
    cls: type[Mechanism], steps: Iterable[str], errors: Mapping[str, float] = MappingProxyType({})
) -> str:
    """The baseline of a method: of several the one whose error is least without noise.

    errors: of methods by id, as far as they are known. So one data set and task have one baseline
    at every epsilon.
    """
    ids = floors_of(cls, steps)
    evaluated = [id for id in ids if get(id).twin in errors]
    return min(evaluated, key=lambda id: errors[get(id).twin], default=ids[-1])


def baselines_of(cls: type[Mechanism], steps: Sequence[str]) -> tuple[str, ...]:
    """Ids of the baselines that run beside a method: what `floor_of` chooses from and by, and where
    features are used these alone."""
    baselines = floors_of(cls, steps)
    if len(baselines) > 1:
        baselines += tuple(get(id).twin for id in baselines)
        baselines += (ALONE[cls.task],) * uses_facts(steps)
    return baselines


def company_of(cls: type[Mechanism]) -> tuple[str, ...]:
    """Ids of what stands beside a method: baselines without and with facts, twin and reference."""
    baselines = baselines_of(cls, []) + baselines_of(cls, ["features"])
    return *baselines, cls.twin, REFERENCES[cls.task]


def takes_facts(cls: type[Mechanism]) -> bool:
    """Whether a method uses what is publicly known of the items; one of a plugin may not say."""
    return getattr(cls, "uses_facts", False)


def uses_facts(steps: Iterable[str]) -> bool:
    """Whether what is publicly known of the items is used by a preparation."""
    return any(step.partition("=")[0] == "features" for step in steps)
