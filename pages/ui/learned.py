"""Show a run: its matrix and its curve, pictures of its errors, and one HTML file."""

import streamlit as st

from dpmc_core.errors import format_sentence
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.model import Task
from dpmc_lab import glossary
from dpmc_lab.views import cards, lines, run_card, text
from dpmc_lab.views import train as train_views
from dpmc_lab.views.run_card import FinishedRun
from dpmc_lab.views.text import format_split
from dpmc_lab.views.train import RunRecording
from pages.ui import blocks, report
from pages.ui.charts import curve as charts_curve
from pages.ui.charts import train as charts_train
from pages.ui.report import Exhibit

# A run round by round: its matrix, and its metric on fixed axes. The server is not asked.
_HTML = """
<div class="run">
  <section class="matrix"><h2><b></b><output aria-live="off"></output></h2>
    <canvas role="img"></canvas>
    <div class="foot"><div class="key"></div><div class="scrub"><button type="button"></button>
      <input type="range" min="0" step="1" aria-label="Round"></div></div></section>
  <section class="curve"><h2><b></b><span></span></h2><svg role="img"></svg></section>
</div>
"""
_CSS = """
.run { display: grid; grid-template-columns: minmax(0, 1.75fr) minmax(280px, 1fr); gap: 18px;
  font: 15px/1.4 var(--st-font); color: var(--text); font-variant-numeric: tabular-nums; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 12px 18px; min-width: 0; display: flex; flex-direction: column; }
h2 { font-size: 17px; font-weight: 600; margin: 0 0 8px; display: flex; gap: 12px;
  align-items: baseline; }
h2 :is(span, output) { margin-left: auto; font-size: 14px; font-weight: 400; color: var(--note);
  text-align: right; }
canvas { display: block; width: 100%; height: clamp(300px, 100vh - 376px, 640px); }
.foot { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 16px; margin-top: 8px; }
.key { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 14px; color: var(--note); }
.key i { display: inline-block; box-sizing: border-box; width: 13px; height: 13px;
  border-radius: 50%; margin-right: 6px; vertical-align: -1px; border: 1.5px solid var(--text); }
.key .yes { background: var(--text); }
.key .flip { border-radius: 3px; background: var(--noise); border-color: var(--noise-edge); }
.scrub { flex: 1; min-width: 190px; display: flex; align-items: center; gap: 10px; }
input { flex: 1; min-width: 80px; height: 28px; margin: 0; accent-color: var(--act); }
button { font: inherit; color: inherit; background: none; cursor: pointer; min-width: 74px;
  min-height: 32px; border: 1px solid var(--line); border-radius: 8px; }
button:hover:enabled { border-color: var(--act); color: var(--act); }
button:disabled { opacity: .55; }
:focus-visible { outline: 2px solid var(--act); outline-offset: 2px; }
svg { flex: 1; width: 100%; min-height: 250px; overflow: visible; }
svg text { font: 15px var(--st-font); fill: var(--text); paint-order: stroke;
  stroke: var(--card); stroke-width: 5px; stroke-linejoin: round; }
svg .note { font-size: 14px; fill: var(--note); }
svg .value { font-size: 21px; font-weight: 700; fill: var(--usefulness); }
svg path { fill: none; }
svg .grid { stroke: var(--line); }
svg path.dash { stroke: var(--text); stroke-width: 2; stroke-dasharray: 9 6; }
svg path.dot { stroke: var(--baseline); stroke-width: 2; stroke-dasharray: 2 4; }
svg text.dot { fill: var(--note); }
svg path.now { stroke: var(--usefulness); stroke-width: 3.5; stroke-linejoin: round; }
svg circle.now { fill: var(--usefulness); stroke: var(--card); stroke-width: 2.5; }
svg path.ghost { stroke: var(--usefulness); stroke-width: 2.5; stroke-dasharray: 5 5;
  opacity: .75; }
svg circle.ghost { fill: var(--card); stroke: var(--usefulness); stroke-width: 2.5; }
@media (max-width: 900px) {
  .run { grid-template-columns: minmax(0, 1fr); gap: 12px; }
  section { padding: 12px 14px; }
  canvas { height: 82vw; max-height: 420px; }
  .scrub { flex-basis: 100%; } button, input { min-height: 44px; }
  svg { flex: none; height: 250px; }
}
"""
_JS = r"""
const places = (window.dpmcRuns ??= new Map());  // where each run was left, and whether it played
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".run");
  root.view ??= build(root);
  root.view.update(data);
  return () => root.view.leave();
}

function build(root) {
  const part = name => root.querySelector(name);
  const canvas = part("canvas"), svg = part("svg");
  const slider = part("input"), button = part("button");
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let run = null, p = 0, playing = false, timer = 0, before = 0;
  const count = () => run.frames.length;
  const bytes = text => Uint8Array.from(atob(text), sign => sign.charCodeAt(0));
  const color = name => {  // as the surface has it now, for the canvas
    root.style.outlineColor = `var(--${name})`;
    return getComputedStyle(root).outlineColor;
  };
  const mix = (low, high, share) => `color-mix(in srgb, ${high} ${share}%, ${low})`;

  const update = next => {
    const fresh = run?.id !== next.id;
    const followed = !fresh && p >= count();
    run = next;
    if (fresh) {
      const left = places.get(run.id);
      p = still || run.live ? count() : Math.min(left?.p ?? 0, count());
      playing = !still && !run.live && (left?.playing ?? true);
    } else if (followed) p = count();
    p = Math.min(p, count());
    part(".key").replaceChildren(...[["no", run.key[0]], ["yes", run.key[1]],
      ...run.flipped ? [["flip", "changed by noise"]] : []].map(([name, text]) => {
      const entry = document.createElement("span"), box = document.createElement("i");
      box.className = name;
      entry.append(box, text);
      return entry;
    }));
    draw();
    if (playing) play();
  };
  const play = () => {
    cancelAnimationFrame(timer);
    before = performance.now();
    timer = requestAnimationFrame(tick);
  };
  const tick = now => {
    const old = Math.floor(p);
    p = Math.min(count(), p + (now - before) * Math.max(count(), 3) / 3000);
    before = now;
    playing = p < count();
    if (Math.floor(p) !== old || !playing) draw();
    if (playing) timer = requestAnimationFrame(tick);
  };
  const leave = () => cancelAnimationFrame(timer);
  button.onclick = () => {
    if (playing) { leave(); playing = false; p = count(); draw(); return; }
    if (p >= count()) p = 0;
    playing = true;
    draw();
    play();
  };
  slider.oninput = () => { leave(); playing = false; p = Number(slider.value); draw(); };
  new ResizeObserver(() => run && draw()).observe(root);

  const draw = () => {
    const k = Math.floor(p), frame = k ? run.frames[k - 1] : null, end = k === count();
    places.set(run.id, { p, playing });
    slider.max = count();
    slider.value = k;
    slider.disabled = !count();
    const words = frame ? `round ${frame.round} of ${run.live ? "at most " : ""}${run.last}`
      : "before round 1";
    part("output").value = words;
    slider.setAttribute("aria-valuetext", words);
    part(".matrix h2").firstChild.textContent = run.titles[!frame ? 0 : end && !run.live ? 2 : 1];
    button.textContent = playing ? "Skip" : end ? "Replay" : "Play";
    button.disabled = !count() || run.live;
    canvas.setAttribute("aria-label",
      `Ratings of ${run.rows} people and ${run.columns} items: ${words}`);
    paint(frame, frame ? frame.round / run.last : 0);
    curve(run.frames.slice(0, k).filter(one => one.value !== null));
  };

  const paint = (frame, share) => {
    const wide = canvas.clientWidth, high = canvas.clientHeight, ratio = devicePixelRatio || 1;
    if (!wide) return;
    canvas.width = wide * ratio;
    canvas.height = high * ratio;
    const pen = canvas.getContext("2d"), w = wide / run.columns, h = high / run.rows;
    pen.scale(ratio, ratio);
    const text = color("text"), card = color("card"), line = color("line"), soft = color("soft");
    const noise = color("noise"), edge = color("noise-edge"), radius = Math.min(w, h) * .32;
    const cells = frame && bytes(frame.cells), given = bytes(run.given);
    const flipped = run.flipped && bytes(run.flipped);
    for (let n = 0; n < given.length; n++) {
      const x = n % run.columns * w, y = Math.floor(n / run.columns) * h;
      pen.globalAlpha = 1;
      pen.fillStyle = cells ? mix(card, text, Math.round(cells[n] / 2.54)) : soft;
      pen.fillRect(x + .5, y + .5, w - 1, h - 1);
      pen.globalAlpha = Math.max(0, 1 - 3 * share);
      if (given[n] === 255 || !pen.globalAlpha) continue;
      const value = Math.round(given[n] / 2.54), turned = flipped && flipped[n];
      pen.beginPath();
      const [left, top, size] = [x + w / 2 - radius, y + h / 2 - radius, 2 * radius];
      if (turned) pen.roundRect(left, top, size, size, 2);
      else pen.arc(x + w / 2, y + h / 2, radius, 0, 7);
      pen.fillStyle = turned ? mix(card, noise, value) : mix(card, text, value);
      pen.fill();
      pen.lineWidth = 1.4;
      pen.strokeStyle = turned ? edge : text;
      pen.stroke();
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = line;
    pen.strokeRect(.5, .5, wide - 1, high - 1);
  };

  const curve = seen => {
    const wide = svg.clientWidth, high = svg.clientHeight;
    if (!wide) return;
    const left = 54, right = wide - 12, top = 20, bottom = high - 28, [low, up] = run.axis;
    const clip = v => Math.min(Math.max(v, Math.min(low, up)), Math.max(low, up));
    const rounds = Math.max(run.last, run.ghost?.points.at(-1)?.[0] ?? 0);
    const x = n => left + (right - left) * n / rounds;
    const y = v => bottom - (bottom - top) * (clip(v) - low) / (up - low);
    const path = points => points.map(
      ([n, v], k) => `${k ? "L" : "M"}${x(n).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    const safe = text => text.replace(/[&<]/g, sign => sign === "&" ? "&amp;" : "&lt;");
    const write = (kind, x, y, text, anchor = "end") =>
      `<text class="${kind}" x="${x}" y="${y}" text-anchor="${anchor}">${safe(text)}</text>`;
    const ring = (kind, n, v, r) => `<circle class="${kind}" cx="${x(n)}" cy="${y(v)}" r="${r}"/>`;
    let parts = run.ticks.map(([at, text]) => `<path class="grid" d="M${left} ${y(at)}H${right}"/>`
      + write("note", left - 8, y(at) + 5, text)).join("");
    for (const { at, text, dash } of run.levels)
      parts += `<path class="${dash}" d="M${left} ${y(at)}H${right}"/>`
        + write(dash, right, y(at) + (dash === "dash" ? -8 : 19), text);
    const ghost = run.ghost?.points ?? [];
    const dot = seen.at(-1), points = seen.map(one => [one.round, one.value]);
    const gap = dot && ghost.length ? y(dot.value) - y(ghost.at(-1)[1]) : 0;
    if (ghost.length) {
      const [n, v] = ghost.at(-1);
      parts += `<path class="ghost" d="${path(ghost)}"/>` + ring("ghost", n, v, 5)
        + write("note", x(n) - 12, y(v) + (gap < 0 ? 22 : -12), run.ghost.text);
    }
    if (dot) parts += `<path class="now" d="${path(points)}"/>`
      + ring("now", dot.round, dot.value, 7)
      + write("value", Math.max(x(dot.round) - 12, left + 64), y(dot.value) + (gap > 0 ? 28 : -13),
        dot.text);
    parts += write("note", left, high - 6, "round 0", "start");
    parts += write("note", right, high - 6, String(rounds));
    svg.innerHTML = parts;
    svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    svg.setAttribute("aria-label", run.words);
    const find = dash => run.levels.find(level => level.dash === dash);
    const better = (a, b) => up > low ? a > b : a < b;
    const base = find("dot"), best = find("dash"), done = dot && p >= count() && !run.live;
    const title = !done ? run.metric
      : ghost.length ? `${gap < -2 ? "Better than" : gap > 2 ? "Worse than" : "As good as"} before`
      : base && !better(dot.value, base.at) ? `No better than ${base.text}`
      : best && better(best.at, dot.value) ? "Privacy takes only a part of the benefit"
      : run.metric;
    part(".curve h2").firstChild.textContent = title;
    part(".curve h2 span").textContent = title === run.metric ? "" : run.metric;
  };
  return { update, leave };
}
"""
_stage = st.components.v2.component("run", html=_HTML, css=_CSS, js=_JS)


def show_stage(
    film: RunRecording, *, live: bool = False, earlier: tuple[RunRecording, str] | None = None
) -> None:
    """Show a run that plays when it is new, and can be replayed and moved through.

    Args:
        film: the recorded run.
        live: whether more rounds will follow.
        earlier: an earlier run with the same metric, and its name.
    """
    _stage(key="run", data=charts_train.build_stage(film, live=live, earlier=earlier))
    blocks.show_chart_numbers(
        train_views.describe_recording(film), train_views.tabulate_recording(film), "film"
    )


def build_exhibits(run: FinishedRun) -> list[Exhibit]:
    """Return charts of how well a run's model predicts held-out ratings.

    For the task RANKING it is how often the next item is among ten suggestions, otherwise the
    distribution of errors.
    """
    result = run.result
    mechanism = result.mechanism
    task = mechanism.task
    test = result.problem.test
    link = train_views.find_link(mechanism)
    if task is Task.RANKING:  # scores are no ratings: there is no error to draw
        methods = run_card.collect_metrics(result)
        bars = lines.select_ranking_metrics(methods)
        metrics = next(iter(bars.values()))
        term = glossary.TERMS["hr@10"]
        return [
            Exhibit(
                "ranking",
                "Next items among ten suggestions",
                "How often is the next item among ten suggestions?",
                charts_curve.plot_ranking_bars(methods),
                " ".join((term.words, term.more)),
                lines.describe_bars(methods),
                {"method": list(bars)}
                | {
                    metric.panel_title: [bar[metric] for bar in bars.values()] for metric in metrics
                },
            )
        ]
    private, *nonprivate = (
        train_views.compute_error_cdf(model, task, test, link)
        for model in (result.model, run.nonprivate_model)
        if model is not None
    )
    errors = private, nonprivate[0] if nonprivate else None
    axis = (
        "error of the chance of +1"
        if task is Task.BINARY
        else f"error ({run_card.find_run_metric(result).unit})"
    )
    return [
        Exhibit(
            "errors",
            "Errors",
            "How large are its errors?",
            charts_train.plot_error_cdfs(*errors, mechanism.name, axis),
            "Further up and left is better. Held-out ratings, not private.",
            train_views.describe_error_cdf(*errors),
            {"error up to": private.error.round(3), "share": private.share.round(4)},
        )
    ]


def render_run_report(run: FinishedRun) -> str:
    """Render a run as one HTML file, with its metrics, its guarantee and its charts."""
    result = run.result
    description = cards.build_privacy_card(result.guarantee, columns=result.problem.train.columns)
    titled_figures = [
        (exhibit.title, exhibit.fig) for exhibit in build_exhibits(run) if exhibit.fig is not None
    ]
    return report.render_report_page(
        f"{result.mechanism.name} on {run.title}",
        [
            text.render_paragraphs(
                f"Tested on {format_split(result.problem.split)}."
                f" {format_sentence(EVALUATION_ONLY)}"
            ),
            text.render_table(run_card.tabulate_metrics(run_card.collect_metrics(result))),
            text.render_heading("Guarantee"),
            text.render_paragraphs(
                description.protects, *(f"{name}: {text}" for name, text in description.details)
            ),
            *report.render_charts(titled_figures),
        ],
        run_card.format_fit_command(run),
        "" if run.fresh else run_card.SEED_NOTE,
    )
