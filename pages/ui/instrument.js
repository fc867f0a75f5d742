// One slider under two curves. Numbers come from the page, none between two stops.

const PLAY = 700 // milliseconds between two stops

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
const set = (node, all) => Object.entries(all).forEach(([name, value]) => node.setAttribute(name, value))
const narrow = matchMedia("(max-width: 800px)")

class Instrument {
  constructor(root) {
    this.root = root
    this.epsilon = this.person = 0
    this.target = this.limit = null // of usefulness, and of risk
    this.changed = ""
    this.told = {} // to the page, and not yet heard back
    this.heard = {} // from it
    this.score = [0, 0]
    this.build()
    this.turned = () => { this.start(); this.refresh() }
    narrow.addEventListener("change", this.turned)
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
    // the chart and its sliders
    const chart = add("section", "chart", root)
    chart.ariaLabel = "Risk and usefulness"
    const tools = make("div", "dpmc-tools", chart)
    this.needs = button(tools, "Set a target", () => this.aim())
    this.playing = button(tools, "\u25b6 Play", () => this.play())
    button(tools, "Save picture", () => this.save())
    add("p", "targets", chart)
    const frame = add("div", "frame", chart)
    add("div", "plot", frame)
    Object.assign(add("div", "knob", add("div", "track", frame)),
      { tabIndex: 0, role: "slider", ariaLabel: "privacy budget epsilon" })
    for (const [name, label] of [["target", "Usefulness target "], ["limit", "Risk target "]]) {
      this[name + "Goal"] = make("div", "dpmc-goal", frame)
      const field = this[name + "Field"] = make("input", "", make("label", "", this.targets, label))
      field.type = "number"
      field.onchange = () => {
        field.told = null
        this.setTarget(name, field.value / this.scale(name)[4], true)
        this.settle(name)
      }
    }
    make("span", "", this.targets, "Type a target or drag its line. ")
    add("span", "answer", this.targets).ariaLive = "polite"
    const sides = add("div", "sides", chart)
    make("span", "", sides, "\u2190 more private")
    this.axis = make("strong", "", sides)
    make("span", "", sides, "more accurate \u2192")
    // what it means
    const panel = add("section", "panel", root)
    this.heading = make("h2", "", panel)
    add("div", "flow", panel)
    add("div", "dots", panel)
    add("p", "text", panel)
    add("span", "note", this.text)
    this.guesses = button(this.text, "You guess", () => this.deal())
    add("div", "game", panel)
    add("section", "lists", panel)
    this.common = make("p", "", this.lists)
    const list = (title) => {
      const side = make("div", "", this.lists)
      make("h3", "", side, title)
      const all = make("ol", "", side)
      return Array.from({ length: 5 }, () => make("li", "", all))
    }
    this.plain = list("Without privacy")
    this.kept = list("With privacy")
    add("p", "who", panel)
    const buttons = make("div", "dpmc-buttons", panel)
    this.next = button(buttons, "Show another person", () =>
      this.tell("person", (this.person + 1) % this.view.people.length))
    this.drags()
  }

  // --- what the page says

  update(view, send) {
    this.send = send
    const known = this.view && this.view.id === view.id
    const first = !this.view
    this.view = view
    for (const name of ["epsilon", "person", "target", "limit"]) {
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
    this.told[name].push(this[name])
    this.send(name, this[name])
  }

  // --- what does not move with the knob

  start() {
    const view = this.view
    Object.assign(this.knob, { ariaValueMin: 0, ariaValueMax: this.last })
    say(this.axis, view.axis)
    say(this.heading, view.panel.title)
    show(this.lists, !!view.people && !!view.lists)
    this.fold()
    const picture = this.picture = view.pictures[narrow.matches ? "narrow" : "wide"]
    this.plot.innerHTML = picture.svg
    const [rule, ...marks] = this.plot.querySelectorAll(".moves")
    Object.assign(this, { rule, marks, levels: [...this.plot.querySelectorAll("path:is(.dash, .dot)")] })
    const { style } = this.frame
    style.setProperty("--track", this.down(picture.track))
    style.setProperty("--left", this.across(picture.left))
    style.setProperty("--right", this.across(picture.width - picture.right))
    this.sides.style.padding = "0 " + this.across(picture.width - picture.right) + " 0 " + this.across(picture.left)
  }

  // The picture on a page of its own, with the sentence above it.
  save() {
    const { view } = this
    const { width, height: high } = this.picture
    const escaped = (text) => text.replace(/[&<>]/g, (c) => "&#" + c.charCodeAt() + ";")
    const halves = this.sentence.match(/.{1,100}( |$)/g)
    const head = halves.map((line, k) => `<tspan x="20" dy="${k ? 20 : 0}">${escaped(line)}</tspan>`).join("")
    const top = 20 * halves.length + 20
    const whole = `<svg xmlns="http://www.w3.org/2000/svg" class="dpmc-picture" font-family="sans-serif"
      width="${width}" height="${top + high + 30}"><rect width="100%" height="100%" fill="var(--paper)"/>
      <text class="bold" y="24">${head}</text>${this.plot.innerHTML.replace("<svg ", `<svg y="${top}" height="${high}" `)}
      <text class="muted" x="20" y="${top + high + 18}">${escaped(view.name + "; " + view.axis)}</text></svg>`
    const link = make("a")
    link.href = "data:image/svg+xml;charset=utf-8,"
      + encodeURIComponent(whole.replace(/var\(--(\w+)\)/g, (_, name) => view.colors[name]))
    link.download = "dpmc-lab.svg"
    link.click()
  }

  // --- places: of stops across, of chances and values down the picture

  get last() {
    return this.view.stops.length - 1
  }

  across(x) {
    return 100 * x / this.picture.width + "%"
  }

  down(y) {
    return 100 * y / this.picture.height + "%"
  }

  near({ clientX }) {
    const { left, width } = this.frame.getBoundingClientRect()
    const { at } = this.picture
    const x = (clientX - left) / width * this.picture.width
    return within(Math.round((x - at[0]) / (at[1] - at[0])), 0, this.last)
  }

  // The axis of a target: its two ends, the rows between which it lies, and what its field counts.
  scale(name) {
    return name === "limit" ? [0.5, 1, ...this.picture.upper, 100]
      : [...this.view.range, ...this.picture.lower, this.view.needed.per]
  }

  row(name, value) {
    const [worst, best, top, bottom] = this.scale(name)
    return bottom + (within(value, worst, best) - worst) / (best - worst) * (top - bottom)
  }

  // --- moving

  settle(name) {
    for (const moved of new Set(["epsilon", name])) this.release(moved)
  }

  drags() {
    const move = (event) => {
      const index = this.near(event)
      if (index !== this.index) this.go(index)
    }
    const held = (node, name, on) => {
      node.onpointerdown = (event) => {
        event.preventDefault()
        node.setPointerCapture(event.pointerId)
        this.pause()
        on(event)
        node.onpointermove = on
      }
      node.onlostpointercapture = () => {
        node.onpointermove = null
        this.settle(name)
      }
    }
    held(this.track, "epsilon", (event) => { move(event); this.knob.focus({ preventScroll: true }) })
    held(this.plot, "epsilon", move)
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -3, PageUp: 3,
      Home: -Infinity, End: Infinity }
    let later = 0
    this.knob.onkeydown = (event) => {
      if (!(event.key in steps)) return
      event.preventDefault()
      this.pause()
      this.go(within(this.index + steps[event.key], 0, this.last))
      clearTimeout(later)
      later = setTimeout(() => this.settle("epsilon"), 250)
    }
    for (const name of ["target", "limit"]) {
      held(this[name + "Goal"], name, ({ clientY }) => {
        const { top, height } = this.frame.getBoundingClientRect()
        const y = (clientY - top) / height * this.picture.height
        const [worst, best, first, last] = this.scale(name)
        this.setTarget(name, worst + (last - y) / (last - first) * (best - worst))
      })
    }
  }

  go(index) {
    this.epsilon = this.view.stops[index].epsilon
    this.refresh()
  }

  play() {
    if (this.timer) return this.pause()
    if (this.index === this.last) this.go(0)
    say(this.playing, "\u275a\u275a Pause")
    this.timer = setInterval(() => {
      if (this.index === this.last) return this.pause()
      this.go(this.index + 1)
    }, PLAY)
  }

  pause() {
    if (!this.timer) return
    clearInterval(this.timer)
    this.timer = null
    say(this.playing, "\u25b6 Play")
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
    const ends = name === "limit" ? [0.5, 1] : this.view.needed && this.view.range
    return value !== null && !!ends && value === within(value, ...ends)
  }

  rounded(name, value) {
    if (name === "limit") return Math.round(100 * within(value, 0.5, 1)) / 100
    const { step, first, answers } = this.view.needed
    return Math.round(within(Math.round(value / step), first, first + answers.length - 1) * step * 1e6) / 1e6
  }

  number(name, value) {
    return +(this.scale(name)[4] * value).toFixed(3)
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
    if (index === null) this.refresh()
    else this.go(index)
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
      const [value, goal, field, on, isRisk]
        = [this[name], this[name + "Goal"], this[name + "Field"], this.aims(name), name === "limit"]
      show(goal, on)
      show(field.parentNode, isRisk || !!this.view.needed)
      const text = on ? this.number(name, value) : ""
      if (field.told !== text) field.value = field.told = text // what is being typed stays
      if (!on) continue
      field.step = this.scale(name)[4] / (isRisk ? 100 : 200)
      const y = this.row(name, value)
      goal.style.top = this.down(y)
      goal.classList.toggle("above", this.crossed(y + 16))
      const place = this.meets(name)
      words += !isRisk ? this.answerTo().words : place === null ? "No epsilon here keeps the risk that low."
        : "The largest epsilon with a risk of at most " + text + " % is " + this.view.stops[place].epsilon + "."
      const end = isRisk ? index > place && " is too large. " : index < place && " is too small. "
      words += end ? " Epsilon " + now.epsilon + end : " "
    }
    show(this.targets, this.needs.ariaPressed = !!words)
    say(this.answer, words && this.changed + words)
  }

  // --- what moves with the knob

  get shown() {
    return this.view.people ? this.person : 0
  }

  // The stop's position, and all that is said there.
  get index() {
    return this.view.stops.findIndex((stop) => stop.epsilon === this.epsilon)
  }

  get now() {
    return this.view.stops[this.index]
  }

  get sentence() {
    return this.now.sentence.map(([text]) => text).join("")
  }

  refresh() {
    const { view, now, index } = this
    this.track.style.setProperty("--x", this.across(this.picture.at[index]))
    this.knob.ariaValueNow = index
    this.knob.ariaValueText = "epsilon " + now.epsilon + ": risk " + now.limit + ", usefulness " + (now.value === null ? now.half : now.text)
    const top = document.querySelector(".dpmc-say") // which the server may have written anew
    for (const [name, value] of Object.entries(view.colors)) {
      for (const node of [this.root, top]) node?.style.setProperty("--" + name, value)
    }
    if (top && top.textContent !== this.sentence) {
      top.replaceChildren(...now.sentence.map(([text, role]) => make("span", role, null, text)))
    }
    this.moved()
    this.aimsNow()
    this.explain()
    if (this.dealt && this.dealt.epsilon !== now.epsilon) this.fold()
    show(this.guesses, !!now.game && !this.game.children.length)
  }

  moved() {
    const { now, index, picture } = this
    const x = picture.at[index]
    this.rule.setAttribute("d", `M${x} ${picture.upper[0]}V${picture.upper[1]}M${x} ${picture.lower[0]}V${picture.inside ? picture.lower[1] : picture.track}`)
    for (const [k, name, value, text] of [[0, "limit", now.risk, now.limit], [1, "target", now.value, now.text]]) {
      const [dot, number] = this.marks.slice(2 * k, 2 * k + 2)
      for (const node of [dot, number]) node.style.display = value === null ? "none" : ""
      if (value === null) continue
      const y = this.row(name, value)
      set(dot, { cx: x, cy: y })
      const base = Math.max(this.scale(name)[2] + 18, y - 10)
      const crossed = this.crossed(base, this.row(name, this[name]))
      const after = crossed ? index < 11 : index < 4
      set(number, { x: x + (after ? 11 : -11), y: crossed ? y + 24 : base, "text-anchor": after ? "start" : "end" })
      say(number, text)
    }
    say(this.marks[4], picture.inside ? "" : now.kept)
  }

  // Whether a level or the target of a chart passes through a text on that base line.
  crossed(base, target) {
    return [target, ...this.levels.map((line) => line.getBBox().y)].some((row) => Math.abs(row - base + 5) < 12)
  }

  // The panel: from a rating to what leaves it, and what that does to recommendations.
  explain() {
    const { view, index } = this
    const panel = view.panel.persons[this.shown]
    show(this.flow, !(this.dealt && panel.reports)) // it would answer the game's question
    show(this.dots, !!panel.outcomes)
    show(this.next, !!view.people)
    show(this.who, !!view.people)
    if (view.people) say(this.who, view.people[this.shown].name)
    const last = panel.reports ? panel.reports[index] : [panel.last, true]
    this.flow.replaceChildren()
    const box = ([big, small], name = "") => {
      const node = make("div", "dpmc-box " + name, this.flow)
      make("b", "", node, big)
      make("small", "", node, small)
    }
    panel.boxes.forEach((texts, k) => {
      if (k) make("span", "", this.flow, "\u2192")
      box(texts)
    })
    make("span", "", this.flow, panel.reports ? "chance \u2192" : "noise \u2192")
    box([last[0], panel.audience], last[1] ? "changed" : "")
    if (panel.outcomes) {
      const [kept, changed] = panel.outcomes[index]
      for (let k = this.dots.children.length; k < 100; k += 1) make("i", "", this.dots)
      ;[...this.dots.children].forEach((dot, k) => {
        const name = k < kept ? "" : k < kept + changed ? "changed" : "missing"
        if (dot.className !== name) dot.className = name
      })
    }
    say(this.note, panel.notes[index] + " " + panel.together[index])
    if (!view.lists) return
    const lists = view.lists[index]
    const named = (items) => items.map((item) => view.titles[item])
    this.listed(lists && named(view.people[this.shown].plain), lists && named(lists.items[this.person]), lists
      ? "She keeps " + lists.shared[this.shown] + " of 5 " + view.items + " (average "
        + lists.everyone.toFixed(1) + ", popular list " + view.popular.toFixed(1) + ")."
      : "There are no lists at this epsilon.")
  }

  // Two lists, if there are any, and what is said of them.
  listed(plain, kept, words) {
    for (const side of this.lists.querySelectorAll("div")) show(side, !!plain)
    say(this.common, words)
    if (!plain) return
    const fill = (items, titles, others) => items.forEach((node, k) => {
      say(node, titles[k])
      node.title = titles[k]
      node.classList.toggle("other", !others.slice(0, 5).includes(titles[k]))
    })
    fill(this.plain, plain, kept)
    fill(this.kept, kept, plain)
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
      const noise = game.law === "gaussian" ? gaussian() : laplace()
      const value = (truth ? game.shift : 0) + noise
      seen = "You see the number " + value.toFixed(1) + ". It is " + game.shift.toFixed(2)
        + " if yes and 0 if no, plus noise of size 1."
    }
    this.dealt = { truth, epsilon }
    const { text, answers } = this.view.question
    this.explain()
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
    narrow.removeEventListener("change", this.turned)
    clearInterval(this.timer)
    this.send = () => {}
  }
}

const gaussian = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random())
const laplace = () => (Math.random() < 0.5 ? -1 : 1) * -Math.log(1 - Math.random())

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
