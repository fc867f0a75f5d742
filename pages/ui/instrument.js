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
const shape = (parent, tag, name, attributes = {}, text = "") => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag)
  for (const [key, value] of Object.entries({ class: name, ...attributes })) node.setAttribute(key, value)
  node.textContent = text
  parent.append(node)
  return node
}
const say = (node, text) => {
  if (node.textContent !== text) node.textContent = text
}
const show = (node, yes) => {
  if (node.hidden === yes) node.hidden = !yes
}
const within = (value, ...ends) => Math.max(Math.min(...ends), Math.min(Math.max(...ends), value))
const through = (points) => "M" + points.map(([x, y]) => x.toFixed(1) + " " + y.toFixed(1)).join("L")
const range = (count, item) => Array.from({ length: count }, (_, k) => item(k))
const quantile = (share) => (share < 0.5 ? Math.log(2 * share) : -Math.log(2 - 2 * share)) // Laplace
const narrow = matchMedia("(max-width: 800px)")
const still = matchMedia("(prefers-reduced-motion: reduce)")

// What a channel makes of a symbol. The first number is below the chance of a change or not, so that
// one throw serves all epsilons; the second one says which other symbol it becomes.
const report = (chances, truth, [first, second]) => {
  const change = 1 - chances[truth]
  if (first >= change) return truth
  let left = second * change
  const other = chances.findIndex((chance, k) => k !== truth && (left -= chance) < 0)
  return other < 0 ? +!truth : other // rounding of the chances
}

class Instrument {
  constructor(root) {
    this.root = root
    this.epsilon = this.person = 0
    this.target = this.limit = this.pinned = null // targets are of usefulness, and of risk
    this.changed = ""
    this.told = {} // to the page, and not yet heard back
    this.heard = {} // from it
    this.build()
    this.sized = new ResizeObserver(() => this.measure())
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
    Object.assign(add("input", "knob", this.line), { type: "range", min: 0, ariaLabel: "privacy budget epsilon" })
    add("span", "ghost", this.line, "A")
    this.ticks = shape(this.line, "svg", "dpmc-ticks", { "aria-hidden": true })
    // the two charts
    add("section", "chart", root).ariaLabel = "Risk and usefulness"
    const tools = make("div", "dpmc-tools", this.chart)
    this.pin = button(tools, "Pin", () => this.tell("pinned", this.pinned === null ? this.epsilon : null))
    const menu = make("details", "dpmc-menu", tools)
    const more = make("summary", "", menu, "\u22ee")
    more.ariaLabel = "More"
    const close = () => {
      menu.open = false
      more.focus({ preventScroll: true })
    }
    menu.onkeydown = ({ key }) => { if (key === "Escape") close() }
    menu.onfocusout = ({ relatedTarget }) => { menu.open &&= menu.contains(relatedTarget) }
    const entries = make("div", "", menu)
    const entry = (text, act) => button(entries, text, () => {
      close()
      act()
    })
    this.needs = entry("Set a target", () => this.aim())
    this.playing = entry("Play", () => this.play())
    this.loads = entry("Download", () => {
      const opener = document.querySelector(".st-key-download button")
      opener.scrollIntoView({ block: "nearest" })
      setTimeout(() => opener.click()) // after this click, which would close what opens
    })
    add("p", "targets", this.chart)
    for (const [name, label] of [["target", "Usefulness target "], ["limit", "Risk target "]]) {
      const field = this[name + "Field"] = make("input", "", make("label", "", this.targets, label))
      field.type = "number"
      field.onchange = () => {
        field.told = null
        this.setTarget(name, field.value / this.scale(name)[2])
        this.settle(name)
      }
    }
    add("span", "answer", this.targets).ariaLive = "polite"
    add("div", "plot", this.chart)
    // the person
    add("section", "panel", root)
    this.heading = make("h2", "", this.panel)
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
    add("p", "who", this.panel)
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
      if (this.aims(name) && this.rounded(name, this[name]) !== this[name]) this.adopt(name, this[name])
    }
    this.measure()
  }

  // While the knob moves, nothing asks for the layout, which would be computed at once.
  measure() {
    const unit = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16
    this.wide = this.plot.clientWidth / unit
    this.tall = innerHeight / unit
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
  adopt(name, value) {
    const [asked, text] = [value, this[name] = this.rounded(name, value)].map((v) => this.number(name, v))
    this.changed = asked !== text ? "The target " + asked + " was rounded to " + text + ". " : ""
  }

  // The knob goes where the target is just met.
  setTarget(name, value) {
    this.adopt(name, value)
    const index = this.meets(name)
    if (index !== null) this.epsilon = this.view.stops[index].epsilon
    this.refresh()
  }

  // The index of the stop that meets a target, of those that limit the risk the most useful; or none.
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
    return this.find(this.epsilon)
  }

  get pinnedIndex() {
    return this.find(this.pinned)
  }

  find(epsilon) {
    return this.view.stops.findIndex((stop) => stop.epsilon === epsilon)
  }

  get now() {
    return this.view.stops[this.index]
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

  draw() {
    const { view, wide, tall, person } = this
    if (!wide) return
    const place = [view.id, wide, tall, person].join()
    if (place !== this.laid) this.move = this.lay()
    this.laid = place
    this.move()
  }

  // Risk above usefulness over one axis: draws what does not move with the knob, and returns what draws
  // the rest. A unit of the picture is a sixteenth of the font's size, so that it grows with the type.
  lay() {
    const { view, plot, wide, tall } = this
    const small = wide < 760 // else a title meets its axis
    const spare = small || view.still ? 0 : within(tall - 756, 0, 420)
    const left = small ? 52 : 60, right = wide - (small ? 14 : 140)
    const first = left + (small ? 8 : 18), last = right - (small ? 10 : 14)
    const top = small ? 76 : 58, upper = top + 134 + 0.45 * spare
    const middle = upper + (small ? 100 : 68), lower = middle + 128 + 0.55 * spare
    const high = lower + 18
    const { usefulness, measured, stops } = view
    const limits = stops.map((stop) => this.risks(stop))
    const x = (k) => first + (last - first) * k / this.last
    const row = (value) => upper - (value - 0.5) * 2 * (upper - top)
    const [worst, best] = usefulness ? usefulness.axis : [0, 1]
    const useRow = (value) => lower - (within(value, worst, best) - worst) / (best - worst) * (lower - middle)
    // the knob and its numbers below the picture's columns
    const rem = (units) => units / 16 + "rem"
    Object.assign(this, { columns: range(stops.length, x).map(rem), small })
    this.knob.style.left = rem(first - 14)
    this.knob.style.width = rem(last - first + 28)
    this.ticks.replaceChildren()
    const write = (x, y, words, name) => shape(this.ticks, "text", name, { x: rem(x), y: rem(y) }, words)
    this.numbers = stops.map(({ epsilon }, k) => write(x(k), 16, epsilon, "middle"))
    const more = wide < 340 ? "" : "more "
    write(small ? 8 : left, 37, "\u2190 " + more + "private")
    write((first + last) / 2, 37, small ? "epsilon" : view.axis, "middle axis")
    write(right + (small ? 6 : 0), 37, more + "accurate \u2192", "end")
    plot.replaceChildren()
    const picture = shape(plot, "svg", "dpmc-picture" + (small ? " small" : ""), { role: "img", viewBox: "0 0 " + wide + " " + high })
    picture.innerHTML = "<defs><pattern id='dpmc-unproved' width='8' height='8' patternUnits='userSpaceOnUse' patternTransform='rotate(45)'><path d='M0 0V8' class='hatch'/></pattern></defs>"
    let svg = shape(picture, "g", "")
    const moving = shape(picture, "g", "")
    const text = (across, down, words, name = "") => shape(svg, "text", name, { x: across, y: down }, words)
    const path = (d, name) => d.length > 1 && shape(svg, "path", name, { d })
    const level = (down, words, name = "grid") => {
      path("M" + left + " " + down + "H" + right, name)
      text(left - 8, down + 5, words, "end muted")
    }
    const title = (words, axis, down) => {
      const base = down - (small ? 38 : 20)
      const halves = words.match(new RegExp(".{1," + Math.floor((wide - left) / 9.4) + "}( |$)", "g"))
      halves.forEach((half, k) => text(left, base + 20 * (k + 1 - halves.length), half, "title"))
      if (small) text(left, down - 18, axis, "muted")
      else text(right, base, axis, "end muted")
    }
    // risk
    for (const share of [0.75, 1]) level(row(share), 100 * share + " %")
    level(upper, "50 %", "dots")
    const all = range(stops.length, (k) => k)
    const [whole, single] = [0, 1].map((part) => all.filter((k) => limits[k][part]?.[0]).map((k) => [x(k), row(limits[k][part][0])]))
    if (whole.length) {
      const floor = single.length ? single : [[whole[0][0], upper], [whole.at(-1)[0], upper]]
      path(through([...whole, ...floor.toReversed()]) + "Z", "tint")
      path(through(single), "curve single")
      path(through(whole), "curve")
    }
    if (!small) text(right + 12, upper + 5, "a coin flip", "muted")
    else text(4, upper + 20, "a coin flip", "muted")
    if (whole.length && !single.length) {
      text(last + (small ? 8 : -6), upper + (small ? 20 : -12), "one " + view.entry + ": no easier", "name risk end")
    }
    const unproved = all.filter((k) => limits[k][0][0] === null)
    if (unproved.length) {
      // What is measured holds from its own epsilon on, where there is less noise.
      const half = (x(1) - x(0)) / 2
      const begin = measured ? stops.findIndex(({ epsilon }) => epsilon >= measured.epsilon) : stops.length
      for (const k of unproved) {
        const height = (k < begin ? upper : row(measured.rate)) - top + 6
        shape(svg, "rect", "unproved", { x: x(k) - half, y: top - 6, width: 2 * half, height })
      }
      text((x(unproved[0]) + x(Math.min(begin, this.last))) / 2, (top + upper) / 2, "no limit is proved", "middle name")
      if (measured) {
        const down = row(measured.rate)
        path("M" + (x(begin) - half) + " " + down + "H" + (last + half), "measured")
        text(right, down + (down < upper - 26 ? 22 : -10), measured.text, "end risk")
      }
    }
    // usefulness
    if (usefulness) {
      for (const [value, words] of usefulness.ticks) level(useRow(value), words)
      const named = usefulness.levels.map(([isReference, name, values]) => {
        const points = values.flatMap((value, k) => (value === null ? [] : [[x(k), useRow(value)]]))
        const [[, start], [, end]] = [points[0], points.at(-1)]
        path(through([[left, start], ...points, [right, end]]), isReference ? "dash" : "dots")
        return [end, name, isReference]
      }).sort(([a], [b]) => a - b)
      const gap = named.length > 1 ? Math.max(0, 17 - named[1][0] + named[0][0]) / 2 : 0
      named.forEach(([down, name, isReference], k) => {
        const muted = isReference ? "" : " muted"
        if (!small) text(right + 12, down + 5 + (k ? gap : -gap), name, muted)
        else text(isReference ? first - 4 : last + 8, down + (isReference ? -7 : 17), name, isReference ? "" : "end muted")
      })
      const points = stops.flatMap(({ value, band }, k) => (value === null ? [] : [[x(k), ...[value, ...band].map(useRow)]]))
      path(through([...points.map(([across, , , high]) => [across, high]),
        ...points.map(([across, , low]) => [across, low]).reverse()]), "band")
      path(through(points), "curve use")
    } else text((left + right) / 2, (middle + lower) / 2, "not computed yet", "middle muted")
    // the rules, which break at the titles, with dots and numbers
    const rule = (k, name) => path("M" + x(k) + " " + (top - 8) + "V" + upper + "M" + x(k) + " " + (middle - 8) + "V" + high, "rule " + name)
    const marked = (k) => [
      ...limits[k].map(([rate, words], part) => [rate && row(rate), words, part ? "single risk" : "risk"]),
      [stops[k].value && useRow(stops[k].value), stops[k].text, "use"],
    ].filter(([down]) => down)
    const dots = (k, name, radius) => marked(k).forEach(([cy, , role]) => shape(svg, "circle", role + name, { cx: x(k), cy, r: radius }))
    svg = moving
    return () => {
      const { now, index, pinnedIndex } = this
      const [risk, use] = [this.of(now.titles[0]), now.titles[1]]
      moving.replaceChildren()
      picture.ariaLabel = view.name + ". " + risk + ". " + use + "."
      title(risk, "attacker right, at most", top - 20)
      title(use, view.metric, middle)
      if (this.aims("limit")) level(row(this.limit), "", "target")
      if (this.aims("target")) level(useRow(this.target), "", "target")
      if (pinnedIndex >= 0) {
        rule(pinnedIndex, "ghost")
        dots(pinnedIndex, " hollow", 7)
        for (const [down, words, role] of marked(pinnedIndex)) {
          const gap = x(index) - x(pinnedIndex)
          if (Math.abs(gap) < 70) continue
          // above left, unless the number at the knob stands there
          if (role !== "risk" || (!small && gap === within(gap, 0, 190))) text(x(pinnedIndex) + 11, down + 22, words, role)
          else if (!small) text(x(pinnedIndex) - 11, down - 10, words, role + " end")
        }
      }
      rule(index, "now")
      // Curves rise to the right: free are above left and below right of a dot.
      const size = small ? 18 : 21
      for (const [down, number, role] of marked(index)) {
        const above = role === "risk"
        const name = role === "use" ? "" : above ? "all " + (single.length ? this.rated : "her") + " " + view.entry + "s"
          : "one " + view.entry
        const length = number.length * size * 0.6 + name.length * 8.2 + 22 // in the widest fonts
        const isCut = x(index) - 12 - length < left // before the dot
        const after = isCut || (!above && x(index) + 12 + length <= wide - 8)
        let base = down - 11
        if (above && after) {
          const passed = whole.filter(([across]) => across >= x(index) && across < x(index) + length)
          base = Math.max(top, Math.min(...passed.map(([, line]) => line))) - 12
        } else if (!above) {
          base = role === "use" ? Math.min(down + 28, high) : down > upper - 31 ? upper + 21 : down + 28
          if (!after) base += small ? 20 : 14
        }
        const label = text(after ? Math.min(x(index) + 12, wide - length) : x(index) - 12, base, "", "name " + role + (after ? "" : " end"))
        const parts = [["big", number], ["", " " + name + " "]]
        for (const [style, words] of after ? parts : parts.reverse()) shape(label, "tspan", style, {}, words)
      }
      dots(index, "", 8)
    }
  }

  place() {
    const { columns, index, knob, ghost, last, small, pinnedIndex } = this
    if (!columns) return
    knob.style.setProperty("--part", 100 * index / last + "%")
    this.numbers.forEach((number, k) => {
      const near = Math.abs(k - index) === 1
      number.classList.toggle("on", k === index)
      number.toggleAttribute("hidden", small && k !== index && (near || k === last - 1 || (k % 2 === 1 && k !== last)))
    })
    show(ghost, pinnedIndex >= 0 && pinnedIndex !== index)
    if (pinnedIndex >= 0) ghost.style.left = columns[pinnedIndex]
    say(this.pin, this.pinned === null ? "Pin" : "Unpin")
    this.pin.ariaLabel = this.pinned === null ? "Pin: keep epsilon " + this.epsilon + " as A and compare"
      : "Unpin: remove A, epsilon " + this.pinned
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
    const { tolerance, ratings, levels } = this.view.panel
    return this.of(ratings).map((truth, k) => {
      const [first, second] = this.thrown[k]
      if (tolerance) return [truth, first < channel[0] ? truth + channel[1] * quantile(second) : null]
      const sent = report(channel[truth], truth, this.thrown[k])
      return [truth, levels && !sent ? null : sent]
    })
  }

  explain() {
    const { now, marks, view: { panel } } = this
    show(this.key, !!panel.ratings)
    const fresh = this.thrown?.length !== this.rated || this.tossedFor !== this.person
    if (fresh) {
      this.toss()
      this.tossedFor = this.person
      if (!panel.ratings) return this.crowd() // which stands still
      marks.className = "dpmc-marks" + (panel.tolerance ? " scale" : this.rated > 60 ? " many" : "")
      marks.replaceChildren(...this.thrown.map((_, k) => {
        const mark = make("i")
        mark.style.transitionDelay = 12 * (k % 15) + "ms"
        return mark
      }))
      panel.ends?.forEach((value, k) => { make("span", "", marks, value).style.left = (k ? 75 : 25) + "%" })
      this.key.replaceChildren(...panel.key.map(([name, words]) => {
        const item = make("span")
        make("i", name, item)
        item.append(words)
        return item
      }))
    }
    if (!panel.ratings) return
    if (!fresh || still.matches) return this.paint(this.reports(now))
    // At first all are true, then the noise comes.
    this.paint(this.of(panel.ratings).map((truth) => [truth, truth]))
    setTimeout(() => this.root.isConnected && this.explain(), 350)
  }

  paint(reports) {
    const { panel } = this.view
    const { tolerance, levels } = panel
    const counts = [0, 0, 0] // changed, missing, true
    reports.forEach(([truth, sent], k) => {
      const mark = this.marks.children[k]
      const fate = sent === null ? 1 : Math.abs(sent - truth) > (tolerance ?? 0) ? 0 : 2
      counts[fate] += 1
      mark.className = ["turned ", "missing", ""][fate] + (fate !== 1 && (sent || !panel.hollow) ? "full" : "")
      if (levels) say(mark, sent === null ? "" : levels[sent])
      if (!tolerance) return
      const [low, high] = panel.ends
      mark.style.translate = within(25 + 50 * ((sent ?? truth) - low) / (high - low), 0, 100) + "cqw"
      mark.style.top = 100 * ((0.618034 * k) % 1) + "%"
    })
    const [changed, missing, kept] = counts
    const [first, ...rest] = panel.words
    const words = rest.join("").replace("?", missing).replace("#", kept)
      + (panel.majority ? (kept === changed ? "a coin flip." : kept > changed ? "right." : "wrong.") : "")
    this.give.replaceChildren(make("b", "noise", null, changed + first), words)
    this.marks.ariaLabel = this.rated + " " + this.view.entry + "s: " + changed + first + words
  }

  // She is one dot of all people; the server adds noise before everyone sees the result.
  crowd() {
    const { panel: { people, stations, words } } = this.view
    const count = Math.min(people, 2000)
    const columns = Math.ceil(Math.sqrt(2.2 * count)), rows = Math.ceil(count / columns), step = 345 / columns
    const her = Math.floor(0.52 * rows) * columns + Math.floor(0.64 * columns)
    const spot = (k) => [4 + step * (k % columns), 6 + step * Math.floor(k / columns)]
    const down = rows * step + 14
    this.marks.className = "dpmc-marks crowd"
    this.marks.ariaLabel = "She is one of " + people + " people. Noise is added before anything is published."
    this.marks.replaceChildren()
    const svg = shape(this.marks, "svg", "", { viewBox: "0 0 350 " + (down + 42) })
    shape(svg, "path", "people", { d: range(count, (k) => (k === her ? "" : through([spot(k)]) + "h0")).join(""), "stroke-width": 0.6 * step })
    const [cx, cy] = spot(her)
    shape(svg, "circle", "her", { cx, cy, r: 7 })
    const way = shape(svg, "g", "", { transform: "translate(0 " + down + ")" })
    shape(way, "path", "", { d: "M7 3h24q5 0 5 5v24q0 5-5 5h-24q-5 0-5-5v-24q0-5 5-5M106 20h20m-7-6 7 6-7 6M208 20h22m-7-6 7 6-7 6" })
    shape(way, "path", "lines", { d: "M10 14h18M10 21h18M10 28h11" })
    shape(way, "path", "wave", { d: "M136 20q8-26 16 0t16 0 16 0 16 0" })
    stations.forEach((name, k) => shape(way, "text", "", { x: k ? 240 : 44, y: 25 }, name))
    this.give.replaceChildren(words[0], make("b", "noise", null, words[1]), words[2])
  }

  // --- recommendations: the average person first, then hers

  list() {
    const { view, index, pinnedIndex } = this
    const lists = view.lists && view.lists[index]
    const both = pinnedIndex >= 0 && pinnedIndex !== index
    const open = this.unfolded || both
    show(this.opener, !!lists)
    show(this.lists, !!lists && open)
    show(this.who, open || !view.people)
    show(this.next, !!view.people && open)
    say(this.who, this.of(view.panel.who))
    if (!lists) return
    const { plain } = view.people[this.person]
    const kept = (entry) => entry.items[this.person].map((item) => plain.slice(0, 5).includes(item))
    this.opener.replaceChildren(make("b", "use", null, lists.everyone.toFixed(1) + " of 5 recommended " + view.items),
      " stay on average; hers:")
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
    make("p", "", this.lists, "With one popular list, " + view.popular.toFixed(1) + " would stay.")
  }

  // --- You guess

  deal() {
    this.pause()
    const { epsilon, game } = this.now
    const truth = Math.random() < 0.5
    let seen
    if (game.symbols) {
      const chances = truth ? game.yes : game.no
      let left = Math.random() // which rounding may leave over: then it is the last one
      seen = "The server got: " + game.symbols.at(chances.findIndex((chance) => (left -= chance) < 0)) + "."
    } else {
      const share = 1 - Math.random()
      const noise = game.law === "laplace" ? quantile(share)
        : Math.sqrt(-2 * Math.log(share)) * Math.cos(2 * Math.PI * Math.random())
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
