"""Write What if as one HTML file that works without a network.

    python -m pages.ui.explorable DATA

writes the file of a sample to standard output. `dpmc explorable` starts this, since the library
knows neither the pages nor Plotly.
"""

import functools
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from dpmc_core import registry
from dpmc_core.errors import DpmcError, capitalise, format_sentence
from dpmc_core.privacy import Guarantee
from dpmc_core.problem import prepare_public_facts
from dpmc_data import datasets
from dpmc_data.synthetic import SAMPLES
from dpmc_lab.study.advice import PrivacyUnit, recommend_for_unit
from dpmc_lab.views import cards, lines, text
from pages.ui import scene
from pages.ui.scene import Scene
from pages.ui.sentences import UNIT_LABELS

_MODULE_PATH = Path(__file__)
INITIAL_STATE = {"epsilon": 1.0, "person": 0, "target": None, "limit": None, "pinned": None}
# Nothing may be asked for, from wherever.
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " font-src data:; form-action 'none'; base-uri 'none'"
)
_REPEAT_WARNING = "On real data every run spends its epsilon again: publish none of it."


def render_sample(data: str) -> str:
    """Render the file of a sample, with the recommended method for each privacy unit.

    Raises:
        DpmcError: there is no curve of such a method.
        OSError: a file cannot be read.
    """
    scenes = _load_recommended_scenes(data)
    if not scenes:
        raise DpmcError(f"no curve of a recommended method came with '{data}'")
    return render_explorable(data, SAMPLES[data].title, scenes, INITIAL_STATE)


def load_other_scenes(data: str, displayed_scene: Scene) -> list[Scene]:
    """Load the shipped scenes of the methods recommended for other privacy units.

    A scene is one method's curve with everything that What if shows beside it. There are none for
    an upload.

    Raises:
        OSError: a file cannot be read.
    """
    if data not in SAMPLES:
        return []
    displayed_unit = _get_privacy_unit(displayed_scene)
    return [
        candidate
        for candidate in _load_recommended_scenes(data)
        if displayed_unit is not None and _get_privacy_unit(candidate) is not displayed_unit
    ]


def _load_recommended_scenes(data: str) -> list[Scene]:
    """Load the shipped scenes of the methods recommended for each privacy unit."""
    public = datasets.load(data).ratings.public
    sample = SAMPLES[data]
    tasks = registry.list_tasks(registry.list_suitable_mechanisms(clicks=sample.clicks))
    get_public_facts = functools.partial(prepare_public_facts, public)
    method_ids = (
        recommend_for_unit(privacy_unit, tasks, get_public_facts) for privacy_unit in UNIT_LABELS
    )
    shipped = (scene.load_shipped_scene(data, id) for id in dict.fromkeys(method_ids) if id)
    return [displayed_scene for displayed_scene in shipped if displayed_scene]


def _get_privacy_unit(displayed_scene: Scene) -> PrivacyUnit | None:
    """Return the privacy unit that a scene's mechanism protects; None for another unit."""
    return PrivacyUnit.from_guarantee(displayed_scene.stops[0].guarantee)


# --- the file --------------------------------------------------------------------------------


def render_explorable(
    data: str,
    title: str,
    scenes: Sequence[Scene],
    state: Mapping[str, Any],
    *,
    private: bool = False,
) -> str:
    """Render one HTML file with the first scene in its state, and the others behind a switch.

    Args:
        data: the data set, as it is typed on the command line.
        title: of the data.
        scenes: the scenes.
        state: the instrument's state, by `instrument.STATES`.
        private: whether the data are an upload, whose file has no name to type.
    """
    content = {
        "views": [_build_view(displayed_scene) for displayed_scene in scenes],
        "stands": dict(state),
    }
    question = "What does privacy cost?"
    notes = [
        _render_note(displayed_scene, data="YOUR_FILE" if private else data, private=private)
        for displayed_scene in scenes
    ]
    return _PAGE.format(
        head=escape(f"{question} {title}"),
        alone=_CONTENT_POLICY,
        colors=text.CSS_PROPERTIES,
        look=scene.STYLESHEET.read_text("utf-8"),
        frame=_MODULE_PATH.with_suffix(".css").read_text("utf-8"),
        asked=escape(question),
        title=escape(title),
        switch=_render_switch(scenes),
        notes="\n".join(notes),
        content=json.dumps(content, allow_nan=False).replace("<", "\\u003c"),
        code=scene.read_javascript(),
        own=_MODULE_PATH.with_suffix(".js").read_text("utf-8"),
    )


def _build_view(displayed_scene: Scene) -> dict[str, Any]:
    """Return what the file shows of a scene, as JSON.

    `shown` is the instrument's view, and `cards` has the facts of the guarantee at each stop of the
    slider.
    """
    return {
        "mechanism": displayed_scene.id,
        "shown": scene.build_view(displayed_scene),
        "cards": [_list_guarantee_facts(stop.guarantee) for stop in displayed_scene.stops],
    }


def _list_guarantee_facts(guarantee: Guarantee) -> list[tuple[str, str]]:
    """Return what a guarantee promises, counts and details, as (name, sentence) pairs."""
    description = cards.build_privacy_card(guarantee)
    unit_text = f"{guarantee.change.label}: {guarantee.change.relation}"
    rows = [("the promise", description.protects), ("counts", unit_text), *description.details]
    if description.upheld:
        rows = [(name, text) for name, text in rows if name != "claimed"]  # the same number
    return [(capitalise(name), format_sentence(text)) for name, text in rows]


def _render_switch(scenes: Sequence[Scene]) -> str:
    """Render the choice of a privacy unit, or the method's name where there is one scene."""
    if len(scenes) < 2:
        return f"<p>{escape(registry.get_mechanism(scenes[0].id).name)}</p>"
    units = map(_get_privacy_unit, scenes)
    radios = (
        f'<label><input type="radio" name="view" value="{k}"> {UNIT_LABELS[unit]}</label>'
        for k, unit in enumerate(units)
        if unit is not None
    )
    return f"<fieldset><legend>Protect</legend>{''.join(radios)}</fieldset>"


def _render_note(displayed_scene: Scene, *, data: str, private: bool) -> str:
    """Render the note below the instrument: how the numbers were made, and all of them.

    Args:
        displayed_scene: the scene.
        data: the data set, as it is typed on the command line.
        private: whether the data are an upload.
    """
    chart = displayed_scene.chart
    line = chart.lines[0]
    seeds = line.seeds.tolist()
    grid = scene.build_curve_grid(data, displayed_scene.id, seeds)
    if not any("estimator" in curve_line.info.settings for curve_line in chart.lines):
        grid = replace(grid, settings={})
    command = shlex.join(["dpmc", "sweep", *grid.argv()])
    sentences = [*lines.describe_measurement(chart), *([_REPEAT_WARNING] if private else [])]
    seeds_text = f"Seeds {', '.join(map(str, seeds))}. Computed by"
    return (
        f'<section class="note" hidden>{text.render_paragraphs(*sentences)}'
        f"<p>{escape(seeds_text)} <code>{escape(command)}</code></p>"
        "<details><summary>What the promise covers</summary><dl></dl></details>"
        "<details><summary>The curve in numbers</summary><div class='wide'>"
        f"{text.render_table(lines.tabulate_line(line))}</div></details></section>"
    )


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{alone}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{head}</title>
<style>
{colors}
{look}
{frame}
</style>
</head>
<body>
<main>
<h1>{asked}</h1>
<p class="dpmc-say" aria-live="polite"></p>
<div class="whom"><strong>{title}</strong>{switch}</div>
<noscript><p>This page draws with JavaScript, which is switched off here.</p></noscript>
<div class="dpmc-what"></div>
{notes}
</main>
<script type="application/json" id="content">{content}</script>
<script type="module">
{code}
{own}
</script>
</body>
</html>
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Write the file of a sample to standard output; return 1 if there is none."""
    (data,) = sys.argv[1:] if argv is None else argv
    try:
        file = render_sample(data)
    except (DpmcError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(file.encode("utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
