// One knob under two curves. Numbers come from the page, none between two stops.

const PLAY = 700 // milliseconds between two stops
const NAMES = ["epsilon", "person", "target", "limit", "pinned"]

const make = (tag, name, parent, text) => {
  const node = document.createElement(tag)
  if (name) node.className = name
  if (text !== undefined) node.textContent = text
  if (parent) parent.append(node)
  return node
}
const say = (node, text) => {
  if (node.textContent !== text) node.textContent = text
}
const show = (node, yes) => {
  if (node.hidden === yes) node.hidden = !yes
}
const within = (value, ...ends) => Math.max(Math.min(...ends), Math.min(Math.max(...ends), value))
const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => "&#" + c.charCodeAt() + ";")
const tspan = (name, text) => text && `<tspan class="${name}">${escaped(text)}</tspan>`
const through = (points) => "M" + points.map(([x, y]) => x.toFixed(1) + " " + y.toFixed(1)).join("L")
const range = (count, item) => Array.from({ length: count }, (_, k) => item(k))
const narrow = matchMedia("(max-width: 800px)")
const still = matchMedia("(prefers-reduced-motion: reduce)")

// What a channel makes of a symbol. The first number is below the chance of a change or not, so that
// one throw serves all epsilons; the second one says which other symbol it becomes.
const report = (chances, truth, [first, second]) => {
  const change = 1 - chances[truth]
  if (first >= change) return truth
  let left = second * change
  const other = chances.findIndex((chance, k) => k !== truth && (left -= chance) < 0)
  return other < 0 ? (truth ? 0 : chances.length - 1) : other // rounding of the chances
}
const quantile = (share) => (share < 0.5 ? Math.log(2 * share) : -Math.log(2 - 2 * share)) // Laplace

class Instrument {
  constructor(root) {
    this.root = root
    this.epsilon = this.person = 0
    this.target = this.limit = this.pinned = null // targets are of usefulness, and of risk
    this.changed = ""
    this.told = {} // to the page, and not yet heard back
    this.heard = {} // from it
    this.score = [0, 0]
    this.build()
    this.turned = () => this.view && this.refresh()
    this.sized = new ResizeObserver(this.turned)
    this.sized.observe(this.plot)
  }

  build() {
    const root = this.root
    root.classList.add("dpmc-what")
    root.replaceChildren()
    const add = (tag, name, parent, text) => (this[name] = make(tag, "dpmc-" + name, parent, text))
    const button = (parent, text, act, name) => {
      const node = make("button", name, parent, text)
      node.onclick = act
      return node
    }
    // the knob, which stays in sight on a phone
    add("div", "line", root)
    Object.assign(add("input", "knob", this.line), { type: "range", min: 0, step: 1,
      ariaLabel: "privacy budget epsilon" })
    add("span", "ghost", this.line, "A").ariaHidden = true
    add("div", "ticks", this.line).ariaHidden = true
    add("div", "ends", this.line)
    make("span", "", this.ends, "\u2190 more private")
    this.axis = make("strong", "", this.ends)
    make("span", "", this.ends, "more accurate \u2192")
    // the two charts
    add("section", "chart", root).ariaLabel = "Risk and usefulness"
    const tools = make("div", "dpmc-tools", this.chart)
    this.pin = button(tools, "Pin", () =>
      this.tell("pinned", this.pinned === null ? this.epsilon : null))
    this.more = button(tools, "\u22ee", () => this.open(this.menu.hidden))
    Object.assign(this.more, { ariaLabel: "More", ariaExpanded: "false" })
    add("div", "menu", tools).hidden = true
    const entry = (text, act) => button(this.menu, text, () => {
      this.open(false)
      this.more.focus({ preventScroll: true })
      act()
    })
    this.needs = entry("Set a target", () => this.aim())
    this.playing = entry("Play", () => this.play())
    this.loads = entry("Download", () => {
      const opener = document.querySelector(".st-key-download button")
      opener.scrollIntoView({ block: "nearest" })
      opener.click()
    })
    tools.onkeydown = ({ key }) => {
      if (key !== "Escape" || this.menu.hidden) return
      this.open(false)
      this.more.focus()
    }
    tools.onfocusout = ({ relatedTarget }) => tools.contains(relatedTarget) || this.open(false)
    add("p", "targets", this.chart)
    for (const [name, label] of [["target", "Usefulness target "], ["limit", "Risk target "]]) {
      const field = this[name + "Field"] = make("input", "", make("label", "", this.targets, label))
      field.type = "number"
      field.onchange = () => {
        field.told = null
        this.setTarget(name, field.value / this.scale(name)[2], true)
        this.settle(name)
      }
    }
    add("span", "answer", this.targets).ariaLive = "polite"
    add("div", "plot", this.chart)
    // the person
    add("section", "panel", root)
    this.heading = make("h2", "", this.panel)
    add("p", "who", this.panel)
    add("div", "marks", this.panel).role = "img"
    add("p", "key", this.panel)
    add("p", "give", this.panel)
    add("p", "note", this.panel)
    const acts = make("div", "dpmc-buttons", this.panel)
    this.throws = button(acts, "Throw again", () => { this.toss(); this.explain() })
    this.guesses = button(acts, "You guess", () => this.deal())
    add("div", "game", this.panel)
    this.opener = button(this.panel, "", () => { this.unfolded = !this.unfolded; this.list() }, "dpmc-opener")
    add("div", "lists", this.panel)
    this.next = button(this.panel, "Show another person", () =>
      this.tell("person", (this.person + 1) % this.view.people.length))
    this.unfolded = narrow.matches || innerHeight > 900
    this.drags()
  }

  // --- what the page says

  update(view, send) {
    this.send = send
    const known = this.view && this.view.id === view.id
    const first = !this.view
    this.view = view
    for (const name of NAMES) {
      // an echo of what was told must not undo what was done since
      const told = this.told[name] ||= []
      const place = told.indexOf(view[name])
      told.splice(0, place + 1)
      if (first || (place < 0 && !told.length && view[name] !== this.heard[name])) this[name] = view[name]
      this.heard[name] = view[name]
    }
    if (view.people) this.person = Math.min(this.person, view.people.length - 1)
    if (!known) this.start()
    for (const name of ["target", "limit"]) {
      if (this.aims(name) && this.rounded(name, this[name]) !== this[name]) this.adopt(name, this[name], true)
    }
    this.refresh()
  }

  tell(name, value) {
    this[name] = value
    this.refresh()
    this.release(name)
  }

  release(name) {
    if (this.told[name].at(-1) === this[name]) return
    this.told[name].push(this[name])
    this.send(name, this[name])
  }

  // --- what does not move with the knob

  start() {
    const { view } = this
    this.root.classList.toggle("still", !!view.still)
    this.knob.max = this.last
    say(this.heading, view.panel.title)
    say(this.note, view.notes)
    show(this.throws, !!view.panel.ratings)
    show(this.loads, !!document.querySelector(".st-key-download"))
    this.fold()
    this.thrown = null
  }

  open(yes) {
    show(this.menu, yes)
    this.more.ariaExpanded = String(yes)
  }

  get last() {
    return this.view.stops.length - 1
  }

  // The axis of a target: its worst and its best end, and what its field counts.
  scale(name) {
    return name === "limit" ? [0.5, 1, 100] : [...this.view.usefulness.axis, this.view.needed.per]
  }

  // --- moving

  settle(name) {
    for (const moved of new Set(["epsilon", name])) this.release(moved)
  }

  drags() {
    let later = 0
    this.knob.oninput = () => {
      this.pause()
      this.go(Number(this.knob.value))
    }
    this.knob.onchange = () => {
      clearTimeout(later)
      later = setTimeout(() => this.release("epsilon"), 200)
    }
    const move = ({ clientX }) => {
      const { left, width } = this.knob.getBoundingClientRect()
      const thumb = this.knob.offsetHeight * 0.64 // as wide as high, see the style sheet
      this.go(within(Math.round((clientX - left - thumb / 2) / (width - thumb) * this.last), 0, this.last))
    }
    this.plot.onpointerdown = (event) => {
      this.plot.setPointerCapture(event.pointerId)
      this.pause()
      move(event)
      this.plot.onpointermove = move
    }
    this.plot.onlostpointercapture = () => {
      this.plot.onpointermove = null
      this.release("epsilon")
    }
  }

  go(index) {
    if (index === this.index) return
    this.epsilon = this.view.stops[index].epsilon
    this.refresh()
  }

  play() {
    if (this.timer) return this.pause()
    if (this.index === this.last) this.go(0)
    say(this.playing, "Pause")
    this.timer = setInterval(() => {
      if (this.index === this.last) return this.pause()
      this.go(this.index + 1)
    }, PLAY)
  }

  pause() {
    if (!this.timer) return
    clearInterval(this.timer)
    this.timer = null
    say(this.playing, "Play")
    this.release("epsilon")
  }

  // --- a target on either curve; both start where the knob meets them

  aim() {
    const on = this.aims("target") || this.aims("limit")
    const { now, view: { needed } } = this
    this.target = on || !needed ? null : this.rounded("target", now.value - needed.slack)
    this.limit = on ? null : this.rounded("limit", (now.risk ?? 0.75) + 0.005)
    this.changed = ""
    this.refresh()
    for (const name of ["target", "limit"]) this.release(name)
  }

  // Whether there is a target on the axis.
  aims(name) {
    const value = this[name]
    const ends = name === "limit" ? [0.5, 1] : this.view.needed && this.view.usefulness.axis
    return value !== null && !!ends && value === within(value, ...ends)
  }

  rounded(name, value) {
    if (name === "limit") return Math.round(100 * within(value, 0.5, 1)) / 100
    const { step, first, answers } = this.view.needed
    return Math.round(within(Math.round(value / step), first, first + answers.length - 1) * step * 1e6) / 1e6
  }

  number(name, value) {
    return +(this.scale(name)[2] * value).toFixed(3)
  }

  // What is typed or linked, and no possible target, is not rounded in silence.
  adopt(name, value, typed) {
    const [asked, text] = [value, this[name] = this.rounded(name, value)].map((v) => this.number(name, v))
    this.changed = typed && asked !== text ? "The target " + asked + " was rounded to " + text + ". " : ""
  }

  // The knob goes where the target is just met.
  setTarget(name, value, typed) {
    this.adopt(name, value, typed)
    const index = this.meets(name)
    if (index !== null) this.epsilon = this.view.stops[index].epsilon
    this.refresh()
  }

  // The index of the stop at which a target is met, or none: the most useful one of those that limit the risk.
  meets(name) {
    if (name === "limit") {
      const index = this.view.stops.findLastIndex(({ risk }) => risk !== null && risk <= this.limit)
      return index < 0 ? null : index
    }
    const { at } = this.answerTo()
    return at === null ? null : Math.ceil(at - 1e-9)
  }

  answerTo() {
    const { step, first, answers } = this.view.needed
    return answers[Math.round(this.target / step) - first]
  }

  aimsNow() {
    const { now, index } = this
    let words = ""
    for (const name of ["target", "limit"]) {
      const [value, field, on, isRisk] = [this[name], this[name + "Field"], this.aims(name), name === "limit"]
      show(field.parentNode, isRisk || !!this.view.needed)
      const text = on ? this.number(name, value) : ""
      if (field.told !== text) field.value = field.told = text // what is being typed stays
      if (!on) continue
      field.step = this.scale(name)[2] / (isRisk ? 100 : 200)
      const place = this.meets(name)
      words += !isRisk ? this.answerTo().words : place === null ? "No epsilon here keeps the risk that low."
        : "The largest epsilon with a risk of at most " + text + " % is " + this.view.stops[place].epsilon + "."
      const end = isRisk ? index > place && " is too large. " : index < place && " is too small. "
      words += end ? " Epsilon " + now.epsilon + end : " "
    }
    show(this.targets, !!words)
    say(this.needs, words ? "Remove the target" : "Set a target")
    say(this.answer, words && this.changed + words)
  }

  // --- what moves with the knob

  // The stop's position, and all that is said there.
  get index() {
    return this.view.stops.findIndex((stop) => stop.epsilon === this.epsilon)
  }

  get now() {
    return this.view.stops[this.index]
  }

  get pinnedIndex() {
    return this.view.stops.findIndex((stop) => stop.epsilon === this.pinned)
  }

  // A text of the person who is shown, where texts differ by person.
  of(text) {
    return Array.isArray(text) ? text[this.view.people ? this.person : 0] : text
  }

  get sentence() {
    return this.now.sentence.map(([text]) => this.of(text)).join("")
  }

  // The limits about everything and about one rating, each a rate and its text; the second one is
  // missing where the first holds for both.
  risks(stop) {
    const single = [stop.risk, stop.limit]
    return stop.all ? [this.of(stop.all), single] : [single]
  }

  refresh() {
    const { view, now, index } = this
    const all = this.risks(now).map(([, text]) => text)
    this.knob.value = index
    this.knob.ariaValueText = "epsilon " + now.epsilon + ": risk " + all.at(-1)
      + (all[1] ? ", all ratings " + all[0] : "") + ", usefulness " + (now.value === null ? now.half : now.text)
    const top = view.still ? null : document.querySelector(".dpmc-say") // which the server may have written anew
    if (top && top.textContent !== this.sentence) {
      top.replaceChildren(...now.sentence.map(([text, role]) => make("span", role, null, this.of(text))))
    }
    this.draw()
    this.place()
    if (view.still) return
    this.aimsNow()
    if (this.dealt && this.dealt.epsilon !== now.epsilon) this.fold()
    show(this.guesses, !!now.game && !this.game.children.length)
    this.explain()
    this.list()
  }

  // Risk above usefulness over one axis. A unit of the picture is a sixteenth of the font's size, so
  // that it grows with the type.
  draw() {
    const { view, now, index, plot, pinnedIndex } = this
    const unit = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16
    const wide = plot.clientWidth / unit
    if (!wide) return
    const small = wide < 600
    const spare = small || view.still ? 0 : within(innerHeight / unit - 768, 0, 420)
    const left = small ? 44 : 60, right = wide - (small ? 14 : 140)
    const [first, last] = [left + (small ? 8 : 18), right - (small ? 10 : 14)]
    const top = small ? 76 : 58, upper = top + 134 + Math.round(0.45 * spare)
    const middle = upper + (small ? 100 : 68), lower = middle + 128 + Math.round(0.55 * spare)
    const high = lower + (small ? 14 : 18)
    const { usefulness, measured } = view
    const x = (k) => first + (last - first) * k / this.last
    const row = (value) => upper - (value - 0.5) / 0.5 * (upper - top)
    const [worst, best] = usefulness ? usefulness.axis : [0, 1]
    const useRow = (value) => lower - (within(value, worst, best) - worst) / (best - worst) * (lower - middle)
    Object.assign(this, { columns: range(this.last + 1, x), edges: [left, right], small })
    let svg = ""
    const text = (across, down, content, name = "") => {
      svg += `<text x="${across.toFixed(1)}" y="${down.toFixed(1)}" class="${name}">${content}</text>`
    }
    const path = (d, name) => { svg += `<path d="${d}" class="${name}"/>` }
    const dot = (k, down, name) => { svg += `<circle cx="${x(k)}" cy="${down}" r="${/hollow/.test(name) ? 7 : 8}" class="${name}"/>` }
    const level = (down, label, name = "") => {
      path(`M${left} ${down}H${right}`, "grid " + name)
      if (label) text(left - 8, down + 5, escaped(label), "end muted")
    }
    const title = (words, axis, down) => {
      const base = down - (small ? 38 : 20)
      const halves = small ? words.match(new RegExp(`.{1,${Math.floor((wide - left) / 8.4)}}( |$)`, "g")) : [words]
      halves.forEach((half, k) => text(left, base + 20 * (k + 1 - halves.length), escaped(half), "title"))
      if (small) text(left, down - 18, escaped(axis), "muted")
      else text(right, base, escaped(axis), "end muted")
    }
    const [riskTitle, useTitle] = now.titles
    // risk
    title(this.of(riskTitle), "attacker right, at most", top - (small ? 18 : 20))
    for (const share of [0.5, 0.75, 1]) level(row(share), 100 * share + " %", share === 0.5 ? "dots" : "")
    const stops = view.stops.map((stop) => this.risks(stop))
    const proved = range(stops.length, (k) => k).filter((k) => stops[k][0][0] !== null)
    const [whole, single] = [0, 1].map((part) => proved.filter((k) => stops[k][part]).map((k) => [x(k), row(stops[k][part][0])]))
    if (whole.length) {
      const floor = single.length ? single : [[whole[0][0], upper], [whole.at(-1)[0], upper]]
      path(through([...whole, ...[...floor].reverse()]) + "Z", "tint")
      if (single.length) path(through(single), "curve single")
      path(through(whole), "curve whole")
    }
    if (!small) text(right + 12, upper + 5, "a coin flip", "muted")
    else if (single.length) text(last + 8, upper - 6, "a coin flip", "end muted")
    else text(left, upper + 20, "a coin flip", "muted")
    const unproved = range(stops.length, (k) => k).filter((k) => stops[k][0][0] === null)
    if (unproved.length) {
      // What is measured holds from its own epsilon on, where there is less noise.
      const half = (x(1) - x(0)) / 2
      const begin = measured ? view.stops.findIndex(({ epsilon }) => epsilon >= measured.epsilon) : stops.length
      for (const k of unproved) {
        const floor = k < begin ? upper : row(measured.rate)
        svg += `<rect x="${x(k) - half}" y="${top - 6}" width="${2 * half}" height="${floor - top + 6}" class="unproved"/>`
      }
      text((x(unproved[0]) + x(Math.min(begin, this.last))) / 2, (top + upper) / 2, "no limit is proved", "middle name")
      if (measured) {
        const down = row(measured.rate)
        path(`M${x(begin) - half} ${down}H${x(this.last) + half}`, "measured")
        text(right, down + 22 < upper - 4 ? down + 22 : down - 10, escaped(measured.text), "end risk")
      }
    }
    // usefulness
    title(useTitle, view.metric, middle)
    if (usefulness) {
      for (const [value, label] of usefulness.ticks) level(useRow(value), label)
      const named = usefulness.levels.map(([isReference, name, values]) => {
        const points = values.flatMap((value, k) => (value === null ? [] : [[x(k), useRow(value)]]))
        if (points.every(([, down]) => down === points[0][1])) points.push([right, points[0][1]], [left, points[0][1]])
        path(through(points.sort((a, b) => a[0] - b[0])), isReference ? "dash" : "dots")
        return [points.at(-1)[1], name, isReference]
      })
      const gap = named.length > 1 ? Math.max(0, 17 - Math.abs(named[0][0] - named[1][0])) / 2 : 0
      named.forEach(([down, name, isReference], k) => {
        const push = named.length > 1 && down > named[1 - k][0] ? gap : -gap
        if (!small) text(right + 12, down + push + 5, escaped(name), isReference ? "" : "muted")
        else if (isReference) text(first - 4, down - 7, escaped(name))
        else text(last + 8, down - 7, escaped(name), "end muted")
      })
      const points = view.stops.flatMap(({ value, band }, k) => (value === null ? [] : [[x(k), value, ...band]]))
      if (points.length) {
        const edge = (part) => points.map((point) => [point[0], useRow(point[part])])
        path(through([...edge(3), ...edge(2).reverse()]) + "Z", "band")
        path(through(edge(1)), "curve use")
      }
    } else text((left + right) / 2, (middle + lower) / 2, "not computed yet", "middle muted")
    for (const [name, down] of [["limit", row], ["target", useRow]]) {
      if (!view.still && this.aims(name)) path(`M${left} ${down(this[name])}H${right}`, "target")
    }
    // the rules, which break at the titles, with dots and numbers
    const rule = (k, name) => path(`M${x(k)} ${top - 8}V${upper}M${x(k)} ${middle - 8}V${high}`, name)
    const marked = (stop, k) => [
      ...stops[k].flatMap(([rate, label], part) => (rate === null ? [] : [[row(rate), label, part ? "single" : "whole"]])),
      ...(stop.value === null ? [] : [[useRow(stop.value), stop.text, "use"]]),
    ]
    if (pinnedIndex >= 0 && !view.still) {
      rule(pinnedIndex, "rule ghost")
      for (const [down, label, name] of marked(view.stops[pinnedIndex], pinnedIndex)) {
        dot(pinnedIndex, down, "hollow " + (name === "use" ? "use" : "risk"))
        if (Math.abs(x(pinnedIndex) - x(index)) < 70) continue
        if (name !== "whole") text(x(pinnedIndex) + 11, down + 22, escaped(label), name === "use" ? "use" : "risk")
        else if (!small) text(x(pinnedIndex) - 11, down - 10, escaped(label), "risk end")
      }
    }
    rule(index, "rule now")
    // Curves rise to the right: free are above left and below right of a dot.
    const size = small ? 18 : 21
    const room = (name, label) => label.length * size * 0.54 + name.length * 7.4 + 22
    const put = (across, down, name, label, role, after) => text(across, down,
      after ? tspan("big", label) + " " + escaped(name) : escaped(name) + " " + tspan("big", label),
      `name ${role} ${after ? "" : "end"}`)
    for (const [down, label, name] of marked(now, index)) {
      const role = name === "use" ? "use" : "risk"
      if (name === "whole") {
        const words = single.length ? `all ${this.rated} ${view.entry}s` : `all her ${view.entry}s`
        const length = room(words, label)
        if (x(index) - 12 - length >= (small ? 2 : left - 40)) put(x(index) - 12, down - 11, words, label, role, false)
        else {
          const passed = whole.filter(([across]) => across >= x(index) && across < x(index) + length)
          put(x(index) + 10, Math.max(top, Math.min(...passed.map(([, line]) => line))) - 12, words, label, role, true)
        }
      } else {
        const words = name === "single" ? "one " + view.entry : ""
        const fits = x(index) + 12 + room(words, label) <= wide - 8
        const base = name === "use" ? Math.min(down + 28, high) : down + 28 > upper - 3 ? upper + 21 : down + 28
        put(x(index) + (fits ? 12 : -12), fits ? base : base + (small ? 20 : 14), words, label, role, fits)
      }
    }
    if (whole.length && !single.length && !view.still) {
      text(last + (small ? 8 : -6), small ? upper + 20 : upper - 12, `one ${escaped(view.entry)}: no easier`, "name risk end")
    }
    for (const [down, , name] of marked(now, index)) dot(index, down, name === "use" ? "use" : "risk")
    const label = escaped(`${view.name}. ${this.of(riskTitle)}. ${useTitle}.`)
    plot.innerHTML = `<svg class="dpmc-picture" role="img" aria-label="${label}" viewBox="0 0 ${wide} ${high}">
      <defs><pattern id="dpmc-unproved" width="8" height="8" patternUnits="userSpaceOnUse"
      patternTransform="rotate(45)"><path d="M0 0V8" class="hatch"/></pattern></defs>${svg}</svg>`
  }

  // The knob, its ghost and its numbers below the picture's columns.
  place() {
    const { columns, edges, view, index, knob, ghost, small, pinnedIndex } = this
    if (!columns) return
    const rem = (units) => units / 16 + "rem"
    knob.style.left = rem(columns[0] - 14)
    knob.style.width = rem(columns.at(-1) - columns[0] + 28)
    knob.style.setProperty("--part", 100 * index / this.last + "%")
    const texts = view.stops.flatMap(({ epsilon }, k) => (
      k === index || !small || (Math.abs(k - index) > 1 && (k % 2 === 0 || k === this.last) && k !== this.last - 1)
        ? [[k, epsilon]] : []))
    this.ticks.replaceChildren(...texts.map(([k, epsilon]) => {
      const node = make("span", k === index ? "on" : "", null, String(epsilon))
      node.style.left = rem(columns[k])
      return node
    }))
    Object.assign(this.ends.style, small ? { left: "", width: "" }
      : { left: rem(edges[0]), width: rem(edges[1] - edges[0]) })
    say(this.axis, small ? "epsilon" : view.axis)
    show(ghost, pinnedIndex >= 0 && pinnedIndex !== index)
    if (pinnedIndex >= 0) ghost.style.left = rem(columns[pinnedIndex])
    say(this.pin, this.pinned === null ? "Pin" : "Unpin")
    this.pin.ariaLabel = this.pinned === null ? `Pin: keep epsilon ${this.epsilon} as A and compare`
      : `Unpin: remove A, epsilon ${this.pinned}`
  }

  // --- the person: what she sends, or whom she trusts

  get rated() {
    return this.of(this.view.panel.rated)
  }

  // Two random numbers for each of her ratings, which serve all epsilons.
  toss() {
    this.thrown = range(this.rated, () => [Math.random(), Math.random()])
  }

  // What becomes of her ratings at a stop: each truth with its report, null for none.
  reports({ channel }) {
    const { tolerance, ratings } = this.view.panel
    return this.of(ratings).map((truth, k) => {
      const [first, second] = this.thrown[k]
      if (!tolerance) return [truth, report(channel[truth], truth, this.thrown[k])]
      const [chance, scale] = channel
      return [truth, first < chance ? truth + scale * quantile(second) : null]
    })
  }

  explain() {
    const { view, now, marks } = this
    const { panel } = view
    show(this.who, !!view.people || !!panel.ratings)
    say(this.who, this.of(panel.who))
    show(this.key, !!panel.ratings)
    if (!panel.ratings) return this.crowd()
    const count = this.rated
    const fresh = !this.thrown || this.thrown.length !== count || this.tossedFor !== this.person
    if (fresh) {
      this.toss()
      this.tossedFor = this.person
      marks.replaceChildren(...range(count, (k) => {
        const mark = make("i", "", null)
        mark.style.transitionDelay = 12 * (k % 15) + "ms"
        return mark
      }))
      marks.className = "dpmc-marks" + (panel.tolerance ? " scale" : count > 60 ? " many" : "")
      if (panel.tolerance) {
        for (const [value, place] of panel.ends.map((value, k) => [value, k ? 75 : 25])) {
          make("span", "", marks, value).style.left = place + "%"
        }
      }
    }
    const paint = () => this.paint(this.reports(now))
    if (!fresh || still.matches) return paint()
    // At first all are true, then the noise comes.
    this.paint(this.of(panel.ratings).map((truth) => [truth, truth]))
    setTimeout(() => this.root.isConnected && this.explain(), 350)
  }

  paint(reports) {
    const { panel, entry } = this.view
    const { symbols, tolerance } = panel
    const levels = symbols && symbols.length > 2
    const changed = ([truth, sent]) => sent !== null && (tolerance ? Math.abs(sent - truth) > tolerance : sent !== truth)
    reports.forEach((pair, k) => {
      const [truth, sent] = pair
      const mark = this.marks.children[k]
      const missing = sent === null || (levels && sent === 0)
      const full = !missing && (symbols ? levels || sent === 1 : true)
      mark.className = [full && "full", changed(pair) && "turned", missing && "missing"].filter(Boolean).join(" ")
      if (levels) say(mark, missing ? "" : symbols[sent])
      if (!tolerance) return
      const [low, high] = panel.ends
      const reach = (high - low) / 2
      mark.style.left = within(100 * ((sent ?? truth) - low + reach) / (2 * reach + high - low), 0, 100) + "%"
      mark.style.top = 100 * ((0.618034 * k) % 1) + "%"
    })
    const total = reports.length
    const moved = reports.filter(changed).length
    const lost = reports.filter(([, sent]) => sent === null || (levels && sent === 0)).length
    const kept = total - moved - (tolerance ? lost : 0)
    const rest = levels || tolerance ? `, ${lost} not sent, ${kept} ${tolerance ? "close to the truth" : "true"}.`
      : entry === "click" ? `, ${kept} sent. Clicks she never made are sent, too.`
      : `, ${kept} true: a majority guess would be ${kept === moved ? "a coin flip" : kept > moved ? "right" : "wrong"}.`
    const verb = tolerance ? `moved by more than ${tolerance} ${this.view.panel.unit}` : levels ? "changed" : entry === "click" ? "hidden" : "flipped"
    const first = levels ? moved - lost : moved
    this.give.replaceChildren(make("b", "noise", null, first + " " + verb), rest)
    this.marks.ariaLabel = `${total} ${entry}s: ${first} ${verb}${rest}`
    this.key.replaceChildren(...[
      ...(symbols && !levels ? [["full", symbols[1]], entry === "rating" && ["", symbols[0]]] : [["full", "as it is"]]),
      [entry === "click" ? "turned" : "turned full", verb.split(" ")[0] + "; the server cannot tell"],
      (levels || tolerance) && ["missing", "not sent"],
    ].filter(Boolean).map(([name, words]) => {
      const item = make("span")
      make("i", name, item)
      item.append(words)
      return item
    }))
  }

  // She is one dot of all people; the server adds noise before everyone sees the result.
  crowd() {
    const { panel } = this.view
    const count = Math.min(panel.people, 2000)
    const columns = Math.ceil(Math.sqrt(2.2 * count))
    const step = 345 / columns
    const rows = Math.ceil(count / columns)
    const her = Math.floor(0.52 * rows) * columns + Math.floor(0.64 * columns)
    const spot = (k) => `${(4 + step * (k % columns)).toFixed(1)} ${(6 + step * Math.floor(k / columns)).toFixed(1)}`
    const down = rows * step + 14
    const arrow = (across) => `<path d="M${across} 20h22m-7-6 7 6-7 6" class="arrow"/>`
    const [across, height] = spot(her).split(" ")
    if (this.crowded !== panel.people) {
      this.marks.innerHTML = `<svg viewBox="0 0 350 ${down + 42}">
        <path d="${range(count, (k) => (k === her ? "" : `M${spot(k)}h0`)).join("")}" class="people" stroke-width="${0.6 * step}"/>
        <circle cx="${across}" cy="${height}" r="7" class="her"/><g transform="translate(0 ${down})">
        <rect x="2" y="3" width="34" height="34" rx="5" class="arrow"/><path d="M10 14h18M10 21h18M10 28h11" class="lines"/>
        <text x="44" y="25">${panel.stations[0]}</text>${arrow(106)}
        <path d="M134 20q8-26 16 0t16 0 16 0 16 0" class="wave"/>${arrow(210)}<text x="242" y="25">${panel.stations[1]}</text></g></svg>`
      this.crowded = panel.people
    }
    this.marks.className = "dpmc-marks crowd"
    this.marks.ariaLabel = "She is one of " + panel.people + " people. Noise is added before anything is published."
    const [start, word, end] = panel.words
    this.give.replaceChildren(start, make("b", "noise", null, word), end)
  }

  // --- recommendations: the average person first, then hers

  list() {
    const { view, index, pinnedIndex } = this
    const lists = view.lists && view.lists[index]
    const both = pinnedIndex >= 0 && pinnedIndex !== index
    const open = this.unfolded || both
    show(this.opener, !!lists)
    show(this.lists, !!lists && open)
    show(this.next, !!view.people && open)
    if (!lists) return
    const { plain } = view.people[this.person]
    const kept = (entry) => entry.items[this.person].map((item) => plain.slice(0, 5).includes(item))
    this.opener.replaceChildren(make("b", "use", null, `${lists.everyone.toFixed(1)} of 5 ${view.items}`),
      " stay on average; of hers:")
    const boxes = make("span", "dpmc-five", this.opener)
    Object.assign(boxes, { role: "img", ariaLabel: lists.shared[this.person] })
    for (const yes of kept(lists)) make("i", yes ? "kept" : "", boxes)
    this.opener.ariaExpanded = String(open)
    this.lists.replaceChildren()
    const fill = (title, entry) => {
      const side = make("div", "", this.lists)
      make("h3", "", side, title)
      const all = make("ol", "", side)
      if (entry) kept(entry).forEach((yes, k) => {
        const name = view.titles[entry.items[this.person][k]]
        make("li", yes ? "kept" : "", all, name).title = name
      })
    }
    if (both) fill("A: epsilon " + this.pinned, view.lists[pinnedIndex])
    fill((both ? "B: epsilon " : "Her list at epsilon ") + this.epsilon, lists)
    make("p", "", this.lists, `With one popular list, ${view.popular.toFixed(1)} would stay.`)
  }

  // --- You guess

  deal() {
    this.pause()
    const { epsilon, game } = this.now
    const truth = Math.random() < 0.5
    let seen
    if (game.symbols) {
      const chances = truth ? game.yes : game.no
      let left = Math.random()
      let k = 0
      while (k < chances.length - 1 && (left -= chances[k]) > 0) k += 1
      seen = "The server got: " + game.symbols[k] + "."
    } else {
      const noise = game.law === "gaussian" ? gaussian() : quantile(1 - Math.random())
      const value = (truth ? game.shift : 0) + noise
      seen = "You see the number " + value.toFixed(1) + ". It is " + game.shift.toFixed(2)
        + " if " + this.view.question.answers[0] + " and 0 if not, plus noise of size 1."
    }
    this.dealt = { truth, epsilon }
    const { text, answers } = this.view.question
    this.board("This is about another person, new each time. " + seen + " " + text, answers.map((name, k) => [name, () => this.judge(!k)]))
  }

  // What is said in a game, and its buttons.
  board(words, acts) {
    this.game.replaceChildren()
    make("p", "", this.game, words)
    const all = make("div", "dpmc-buttons", this.game)
    for (const [text, act] of acts) make("button", "", all, text).onclick = act
    show(this.guesses, false)
    all.firstChild.focus({ preventScroll: true })
  }

  judge(yes) {
    const right = yes === this.dealt.truth
    this.score = [this.score[0] + right, this.score[1] + 1]
    this.board((right ? "Right" : "Wrong") + ". You: " + this.score.join(" of ") + ". "
      + this.now.attacker, [["Guess again", () => this.deal()], ["Stop guessing", () => {
      this.fold()
      this.refresh()
      this.guesses.focus({ preventScroll: true })
    }]])
  }

  fold() {
    this.dealt = null
    this.score = [0, 0]
    this.game.replaceChildren()
  }

  end() {
    this.sized.disconnect()
    clearInterval(this.timer)
    this.send = () => {}
  }
}

const gaussian = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random())

export default function ({ data, parentElement, setStateValue }) {
  const root = parentElement.querySelector(".dpmc-what")
  if (!root.instrument) root.instrument = new Instrument(root)
  root.instrument.update(data, setStateValue)
  return () => {
    if (!root.isConnected && root.instrument) {
      root.instrument.end()
      root.instrument = null
    }
  }
}
