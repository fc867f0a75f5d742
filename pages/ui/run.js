// The stage of Train plays a run round by round; the server is not asked.
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
    const ghost = run.ghost?.points ?? [], last = ghost.at(-1);
    const rounds = Math.max(run.last, last?.[0] ?? 0);
    const x = n => left + (right - left) * n / rounds;
    const y = v => Math.min(Math.max(bottom - (bottom - top) * (v - low) / (up - low), top), bottom);
    const path = points => points.map(
      ([n, v], k) => `${k ? "L" : "M"}${x(n).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    const escape = text => new Option(text).innerHTML;
    const write = (kind, x, y, text, anchor = "end") =>
      `<text class="${kind}" x="${x}" y="${y}" text-anchor="${anchor}">${escape(text)}</text>`;
    const ring = (kind, n, v, r) => `<circle class="${kind}" cx="${x(n)}" cy="${y(v)}" r="${r}"/>`;
    let parts = run.ticks.map(([at, text]) => `<path class="grid" d="M${left} ${y(at)}H${right}"/>`
      + write("note", left - 8, y(at) + 5, text)).join("");
    const places = [];
    const place = (v, ...sides) => {  // the first side of a value where no text is
      const spots = sides.map(side => y(v) + side);
      places.unshift(spots.find(spot => places.every(at => Math.abs(at - spot) > 19)) ?? spots[0]);
      return places[0];
    };
    for (const { at, text, dash } of run.levels)
      parts += `<path class="${dash}" d="M${left} ${y(at)}H${right}"/>`
        + write(dash, right, place(at, dash === "dash" ? -8 : 19), text);
    const dot = seen.at(-1), points = seen.map(one => [one.round, one.value]);
    const spot = dot && place(dot.value, -13, 28);
    if (last) {
      const [n, v] = last;
      parts += `<path class="ghost" d="${path(ghost)}"/>` + ring("ghost", n, v, 5)
        + write("note", x(n) - 12, place(v, -12, 22, 42, 58), run.ghost.text);
    }
    if (dot) parts += `<path class="now" d="${path(points)}"/>`
      + ring("now", dot.round, dot.value, 7)
      + write("value", Math.max(x(dot.round) - 12, left + 64), spot, dot.text);
    svg.innerHTML = parts + write("note", left, high - 6, "round 0", "start")
      + write("note", right, high - 6, String(rounds));
    svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    svg.setAttribute("aria-label", run.words);
    const title = dot && p >= count() && !run.live ? run.conclusion : run.metric;
    part(".curve h2").firstChild.textContent = title;
    part(".curve h2 span").textContent = title === run.metric ? "" : run.metric;
  };
  return { update, leave };
}
