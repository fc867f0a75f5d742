// A run round by round: panels of the matrix, the metric on fixed axes, one person's list.
// The place p of a film counts its frames that were played; 0 is before the first round.
const SVG = "http://www.w3.org/2000/svg";
const places = (window.dpmcFilms ??= new Map()) // film -> where it was left, and whether it played
const shown = new WeakMap()

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".film")
  if (!shown.has(root)) shown.set(root, player(root))
  shown.get(root).update(data)
  return () => shown.get(root).leave()
}

function player(root) {
  const part = (name) => root.querySelector(name)
  const button = part("button"), slider = part("input"), round = part("output")
  const still = window.matchMedia("(prefers-reduced-motion: reduce)")
  let film = null, p = 0, playing = false, timer = 0, last = 0

  const count = () => film.frames.length
  const end = () => p >= count()

  function update(next) {
    const fresh = !film || film.id !== next.id
    const now = !fresh && p >= 1 ? film.frames[Math.ceil(p) - 1]?.round : null
    const panels = fresh || film.panels.length !== next.panels.length
    film = next
    if (panels) build()
    if (fresh) {
      const left = places.get(film.id)
      p = still.matches ? count() : Math.min(left?.place ?? 0, count())
      playing = left?.playing ?? true
    } else if (now != null) {
      // rounds are thinned while a run goes on: stay at the same one
      const k = film.frames.findIndex((frame) => frame.round >= now)
      if (k >= 0 && film.frames[k].round !== film.frames[Math.ceil(p) - 1]?.round) p = k + 1
    }
    if (still.matches && playing) p = count()
    draw()
    run()
  }

  function run() {
    if (timer || !playing) return
    last = performance.now()
    timer = requestAnimationFrame(tick)
  }

  function tick(now) {
    timer = 0
    const frames = Math.max(count(), film.live ? Math.min(film.total, 60) : 1, 1)
    const pace = Math.min(film.pace, Math.max(900, 400 * frames))
    const before = Math.floor(p)
    p = Math.min(count(), p + ((now - last) * frames) / pace)
    last = now
    if (end() && !film.live) playing = false
    if (Math.floor(p) !== before || !playing) draw()
    if (playing && !end()) timer = requestAnimationFrame(tick)
  }

  function leave() {
    cancelAnimationFrame(timer)
    timer = 0
  }

  button.onclick = () => {
    if (playing && !end()) { // skip
      p = count()
      playing = film.live
    } else {
      if (end()) p = 0
      playing = true
    }
    draw()
    run()
  }
  slider.oninput = () => {
    playing = false
    p = Number(slider.value)
    draw()
  }
  new ResizeObserver(() => film && curve()).observe(part("svg"))

  function build() {
    const panels = part(".panels")
    panels.replaceChildren(...film.panels.map((panel) => {
      const figure = document.createElement("figure")
      const head = document.createElement("div"), canvas = document.createElement("canvas")
      head.className = "name"
      head.textContent = panel.name
      head.title = panel.help
      canvas.width = film.columns
      canvas.height = film.rows
      canvas.setAttribute("role", "img")
      canvas.setAttribute("aria-label", panel.help)
      figure.append(head, canvas)
      return figure
    }))
    part(".curve .name").textContent = film.metric
    part(".list .name").textContent = film.person
    part("ol").replaceChildren()
    part(".legend").replaceChildren(...film.legend.map(([name, color]) => {
      const entry = document.createElement("span"), box = document.createElement("i")
      box.style.background = color
      entry.append(box, name)
      return entry
    }))
  }

  function draw() {
    const k = Math.floor(p), frame = k ? film.frames[k - 1] : null
    places.set(film.id, { place: playing && film.live ? k : p, playing })
    const canvases = root.querySelectorAll("canvas")
    film.panels.forEach((panel, n) => paint(canvases[n], panel.cells ?? frame?.cells))
    curve()
    list(frame ? frame.top : [])
    slider.max = count()
    slider.value = k
    slider.disabled = !count()
    const all = film.live ? "at most " + film.total : film.of
    const words = frame ? `round ${frame.round} of ${all}` : film.waits
    round.value = words
    slider.setAttribute("aria-valuetext", words)
    const going = playing && !end()
    button.textContent = going ? "Skip" : end() ? "Replay" : "Play"
    button.disabled = !count() || (end() && film.live)
  }

  function paint(canvas, cells) {
    const pen = canvas.getContext("2d")
    pen.fillStyle = film.colors.missing
    pen.fillRect(0, 0, canvas.width, canvas.height)
    if (!cells) return
    const bytes = atob(cells)
    for (let n = 0; n < bytes.length; n++) {
      const value = bytes.charCodeAt(n)
      if (value === 255) continue
      pen.fillStyle = film.colors.scale[value]
      pen.fillRect(n % film.columns, Math.floor(n / film.columns), 1, 1)
    }
  }

  function list(top) {
    const box = part("ol"), old = new Map([...box.children].map((li) => [li.dataset.item, li]))
    box.replaceChildren(...top.map((item) => {
      if (old.has(String(item))) return old.get(String(item))
      const li = document.createElement("li")
      li.dataset.item = item
      li.textContent = li.title = film.names[item]
      return li
    }))
  }

  function curve() {
    const box = part("svg"), wide = box.clientWidth, high = box.clientHeight
    if (!wide) return
    const left = 50, right = wide - 122, top = 10, bottom = high - 24
    const [low, up] = film.axis, rounds = Math.max(film.live ? film.total : film.of, 1)
    const x = (n) => left + ((right - left) * n) / rounds
    const y = (v) => bottom - ((bottom - top) * (Math.min(up, Math.max(low, v)) - low)) / (up - low)
    const parts = []
    const add = (tag, values, text) => {
      const one = document.createElementNS(SVG, tag)
      for (const [name, value] of Object.entries(values)) one.setAttribute(name, value)
      if (text !== undefined) one.textContent = text
      parts.push(one)
      return one
    }
    for (const [at, text] of film.ticks) {
      add("line", { x1: left, x2: right, y1: y(at), y2: y(at), stroke: film.colors.grid })
      add("text", { x: left - 7, y: y(at) + 4, "text-anchor": "end" }, text)
    }
    add("text", { x: left, y: high - 6, "text-anchor": "middle" }, "0")
    add("text", { x: right, y: high - 6, "text-anchor": "end" }, `round ${rounds}`)
    for (const line of film.lines) {
      const at = y(line.at)
      add("line", { x1: left, x2: right, y1: at, y2: at, stroke: line.color, "stroke-width": 1.6,
        "stroke-dasharray": line.dash })
    }
    const seen = film.frames.slice(0, Math.floor(p)).filter((frame) => frame.value !== null)
    const points = seen.map((frame) => `${x(frame.round)},${y(frame.value)}`)
    add("polyline", { points: points.join(" "), fill: "none", stroke: film.colors.line,
      "stroke-width": 2.5 })
    const dot = seen.at(-1)
    const names = film.lines.map(({ at, text, color }) => ({ y: y(at), text, color }))
    if (dot) {
      add("circle", { cx: x(dot.round), cy: y(dot.value), r: 5, fill: film.colors.line })
      names.push({ y: y(dot.value), text: `this model\n${dot.text}`, color: film.colors.line,
        style: "font-weight: 700" })
    }
    // names beside the frame, near their lines and apart from each other
    names.sort((one, two) => one.y - two.y)
    let free = top - 8
    for (const name of names) {
      name.rows = name.text.split("\n")
      name.top = free = Math.max(free, name.y - 8 * name.rows.length)
      free += 16 * name.rows.length + 3
    }
    let end = bottom + 8
    for (const name of names.reverse()) {
      const size = 16 * name.rows.length
      name.top = Math.min(name.top, end - size)
      end = name.top - 3
      add("line", { x1: right, x2: right + 10, y1: name.y, y2: name.top + size / 2,
        stroke: name.color })
      const text = add("text", { style: name.style ?? "" })
      name.rows.forEach((row, k) => {
        const span = document.createElementNS(SVG, "tspan")
        span.setAttribute("x", right + 13)
        span.setAttribute("y", name.top + 13 + 16 * k)
        span.textContent = row
        text.append(span)
      })
    }
    box.replaceChildren(...parts)
    box.setAttribute("viewBox", `0 0 ${wide} ${high}`)
    box.setAttribute("aria-label", film.words)
  }

  return { update, leave }
}
