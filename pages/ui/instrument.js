// A slider that is the chart's own axis. Numbers come from the page, none between two stops; axes
// never change.

const NARROW = 620 // pixels of the component below which names leave the chart's margin
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

let drawing = null // Plotly, fetched once and kept by the browser

const plotly = (url) => {
  if (window.Plotly) return Promise.resolve(window.Plotly)
  if (!drawing) {
    drawing = new Promise((done, fail) => {
      const script = make("script")
      script.src = new URL(url, document.baseURI)
      script.onload = () => done(window.Plotly)
      script.onerror = () => { drawing = null; fail() }
      document.head.append(script)
    })
  }
  return drawing
}

class Instrument {
  constructor(root) {
    this.root = root
    this.stop = this.person = this.asked = 0
    this.layer = ""
    this.wanted = null
    this.sent = new Map() // to the page
    this.heard = new Map() // from it
    this.score = [0, 0]
    this.build()
    this.watch = new ResizeObserver(() => this.resized())
    this.watch.observe(root)
  }

  build() {
    const root = this.root
    root.classList.add("dpmc-what")
    root.replaceChildren()
    // the chart and its slider
    this.chart = make("section", "dpmc-chart", root)
    const head = make("div", "dpmc-head", this.chart)
    this.title = make("strong", "", head)
    this.finding = make("span", "", head)
    this.layers = make("div", "dpmc-switch", head)
    this.layers.setAttribute("role", "group")
    this.layers.setAttribute("aria-label", "What the picture shows")
    this.frame = make("div", "dpmc-frame", this.chart)
    this.plot = make("div", "dpmc-plot", this.frame)
    this.goal = make("div", "dpmc-goal", this.frame)
    this.goal.tabIndex = 0
    this.goal.setAttribute("role", "slider")
    this.goal.setAttribute("aria-orientation", "vertical")
    this.goalText = make("span", "", this.goal)
    this.need = make("div", "dpmc-need", this.frame)
    this.scale = make("div", "dpmc-scale", this.frame)
    this.track = make("div", "dpmc-track", this.frame)
    this.knob = make("div", "dpmc-knob", this.track)
    this.knob.tabIndex = 0
    this.knob.setAttribute("role", "slider")
    this.knob.setAttribute("aria-label", "epsilon")
    const sides = make("div", "dpmc-sides", this.chart)
    make("span", "", sides, "\u2190 more private")
    this.legend = make("span", "dpmc-legend", sides)
    make("span", "", sides, "Drag the slider, and see who sees what.")
    make("span", "", sides, "more accurate \u2192")
    const save = make("button", "dpmc-save", head, "Save picture")
    save.onclick = () => this.library && this.library.downloadImage(this.plot,
      { format: "png", scale: 2, filename: "dpmc-lab" })
    // the answer
    this.card = make("section", "dpmc-card", root)
    this.card.setAttribute("aria-label", "At this epsilon")
    this.number = make("div", "dpmc-number", this.card)
    this.epsilon = make("span", "dpmc-epsilon", this.number)
    this.value = make("span", "dpmc-value", this.number)
    this.half = make("span", "dpmc-half", this.number)
    this.rest = make("div", "dpmc-rest", this.card)
    this.keeps = make("p", "dpmc-keeps", this.rest)
    const attack = make("div", "dpmc-attack", this.rest)
    this.right = make("p", "", attack)
    this.asks = make("div", "dpmc-switch", attack)
    this.asks.setAttribute("role", "group")
    this.asks.setAttribute("aria-label", "What the attacker asks")
    this.choices = [0, 1].map((k) => {
      const button = make("button", "", this.asks)
      button.onclick = () => this.tell("asked", k)
      return button
    })
    this.lists = make("section", "dpmc-lists", this.rest)
    const list = (title) => {
      const side = make("div", "", this.lists)
      make("h2", "", side, title)
      const all = make("ol", "", side)
      return Array.from({ length: 5 }, () => make("li", "", all))
    }
    this.plain = list("without privacy")
    this.kept = list("with privacy")
    this.common = make("p", "", this.lists)
    this.game = make("div", "dpmc-game", this.rest)
    const promise = make("p", "dpmc-promise", this.rest)
    this.method = make("strong", "", promise)
    this.promise = make("span", "", promise)
    this.answer = make("p", "dpmc-answer", this.rest)
    this.answer.setAttribute("aria-live", "polite")
    const buttons = make("div", "dpmc-buttons", this.rest)
    const button = (text, act) => {
      const node = make("button", "", buttons, text)
      node.onclick = act
      return node
    }
    this.playing = button("\u25b6 Play", () => this.play())
    this.needs = button("I need \u2026", () => this.want())
    this.guesses = button("Guess", () => this.deal())
    // one person
    this.who = make("section", "dpmc-who", root)
    this.who.setAttribute("aria-label", "One person")
    const name = make("div", "dpmc-name", this.who)
    this.next = make("button", "dpmc-link", name)
    this.next.title = "Another person"
    this.next.onclick = () =>
      this.tell("person", this.person === "you" ? 0 : (this.person + 1) % this.view.people.length)
    this.enter = make("button", "", name, "Put yourself in")
    this.enter.onclick = () => {
      this.you.anew()
      this.tell("person", "you")
      this.you.asks.firstChild.focus({ preventScroll: true })
    }
    this.cells = make("div", "dpmc-cells", this.who)
    this.flips = make("div", "dpmc-flips", this.who)
    this.you = new You(this)
    this.drags()
  }

  // --- what the page says ---------------------------------------------------------------------

  update(view, send) {
    this.send = send
    const known = this.view && this.view.id === view.id
    const first = !this.view
    this.view = view
    for (const name of ["stop", "person", "asked", "wanted", "layer"]) {
      // an echo of what was told must not undo what was done since
      if (!first && view[name] === this.heard.get(name)) continue
      this.heard.set(name, view[name])
      if (first || view[name] !== this.sent.get(name)) this[name] = view[name]
    }
    this.you.meet(view.six)
    if (this.person === "you" && !view.six.length) this.person = 0
    if (view.people && this.person !== "you") this.person = Math.min(this.person, view.people.length - 1)
    if (!known) this.draw()
    this.refresh()
  }

  tell(name, value) {
    this[name] = value
    this.refresh()
    this.release(name)
  }

  release(name) {
    this.sent.set(name, this[name])
    this.send(name, this[name])
  }

  // --- what never moves -----------------------------------------------------------------------

  draw() {
    const view = this.view
    const style = this.root.style
    for (const [name, value] of Object.entries(view.colors)) style.setProperty(`--${name}`, value)
    this.layers.replaceChildren()
    for (const one of view.layers.length > 1 ? view.layers : []) {
      make("button", "", this.layers, one.name).onclick = () => this.tell("layer", one.name)
    }
    this.scale.replaceChildren()
    for (const one of view.stops) make("span", "", this.scale, one.epsilon)
    this.sides()
    this.knob.setAttribute("aria-valuemin", 0)
    this.knob.setAttribute("aria-valuemax", view.stops.length - 1)
    show(this.who, !!view.people)
    show(this.lists, !!view.people && !!view.lists)
    show(this.needs, !!view.needed)
    this.fold()
    say(this.method, view.method)
    say(this.promise, ` ${view.promise[0].toLowerCase()}${view.promise.slice(1)}`)
    this.over = null
    this.turn()
    plotly(view.plotly).then((library) => this.plotted(library), () => {})
  }

  // The layer in sight: another picture over the same slider.
  turn() {
    const layers = this.view.layers
    const now = layers.find((one) => one.name === this.layer) || layers[0]
    const over = now.faces[Math.min(this.asked, now.faces.length - 1)]
    if (over === this.over) return
    this.over = over
    say(this.title, now.title)
    Array.from(this.layers.children).forEach((button, k) => {
      button.setAttribute("aria-pressed", layers[k] === now)
    })
    show(this.scale, now !== layers[0])
    this.sides()
    if (this.library) this.plotted(this.library)
    else this.sketch()
  }

  // The same lines as a plain picture, until Plotly is there.
  sketch() {
    if (this.library || this.over !== this.view.layers[0].faces[0]) return
    const { data, layout } = this.over.figure
    const [low, high] = layout.yaxis.range
    const height = this.frame.clientHeight
    const { t, b } = this.margin
    const y = (v) => t + ((high - v) / (high - low)) * (height - t - b)
    const path = (trace) => trace.x.map((x, k) => `${this.at(x)},${y(trace.y[k])}`).join(" ")
    const lines = data.filter((trace) => trace.mode && trace.mode.startsWith("lines") && trace.x.length)
    this.plot.innerHTML = `<svg width="100%" height="${height}" aria-hidden="true">${lines
      .map((trace) => trace.fill
        ? `<polygon points="${path(trace)}" fill="${trace.fillcolor}"/>`
        : `<polyline points="${path(trace)}" fill="none" stroke="${trace.line.color}"
             stroke-width="2" stroke-dasharray="${{ dash: "9 6", dot: "2 4" }[trace.line.dash] || ""}"/>`)
      .join("")}</svg>`
  }

  plotted(library) {
    const { data, layout } = JSON.parse(JSON.stringify(this.over.figure))
    if (!this.library) this.plot.replaceChildren()
    this.library = library
    this.fit(layout)
    layout.width = this.frame.clientWidth
    layout.height = this.frame.clientHeight
    library.react(this.plot, data, layout, { displayModeBar: false, responsive: false })
    this.drawn = null
    this.moved()
  }

  // On a phone the names of lines stand below the chart instead of beside it.
  fit(layout) {
    const narrow = this.width < NARROW
    const names = layout.annotations || [] // none before the first point
    layout.margin = this.margin
    if (narrow) layout.showlegend = false
    if (narrow && this.over === this.view.layers[0].faces[0]) {
      layout.annotations = []
      layout.xaxis.ticktext = layout.xaxis.ticktext.map((text, k) => (k % 3 === 0 ? text : ""))
    }
    say(this.legend, narrow && this.over === this.view.layers[0].faces[0]
      ? names.map((note) => note.text.replaceAll("<br>", ", ")).join(" \u00b7 ") : "")
  }

  sides() {
    this.width = this.frame.clientWidth
    this.margin = { ...(this.over || this.view.layers[0].faces[0]).figure.layout.margin }
    if (this.width < NARROW) this.margin.r = 12
    this.root.style.setProperty("--left", `${this.margin.l}px`)
    this.root.style.setProperty("--right", `${this.margin.r}px`)
    this.root.style.setProperty("--bottom", `${this.margin.b}px`)
    Array.from(this.scale.children).forEach((mark, k) => { mark.style.left = `${this.at(k)}px` })
  }

  resized() {
    const { clientWidth, clientHeight } = this.frame
    if (!this.view || !clientWidth || (this.width === clientWidth && this.high === clientHeight)) return
    this.high = clientHeight
    this.sides()
    if (this.library) this.plotted(this.library)
    else this.sketch()
    this.refresh()
  }

  // --- places ---------------------------------------------------------------------------------

  at(place) {
    const { l, r } = this.margin
    const room = this.view.room
    const wide = this.frame.clientWidth - l - r
    return l + ((place + room) / (this.view.stops.length - 1 + 2 * room)) * wide
  }

  near(pixel) {
    const { l, r } = this.margin
    const room = this.view.room
    const last = this.view.stops.length - 1
    const share = (pixel - l) / (this.frame.clientWidth - l - r)
    return Math.max(0, Math.min(last, Math.round(share * (last + 2 * room) - room)))
  }

  level(pixel) {
    const [low, high] = this.view.layers[0].faces[0].figure.layout.yaxis.range
    const { t, b } = this.margin
    const share = (pixel - t) / (this.frame.clientHeight - t - b)
    return high - Math.max(0, Math.min(1, share)) * (high - low)
  }

  height(value) {
    const [low, high] = this.view.layers[0].faces[0].figure.layout.yaxis.range
    const { t, b } = this.margin
    return t + ((high - value) / (high - low)) * (this.frame.clientHeight - t - b)
  }

  // --- moving ---------------------------------------------------------------------------------

  drags() {
    const track = this.track
    const move = (event) => {
      const place = this.near(event.clientX - this.frame.getBoundingClientRect().left)
      if (place !== this.stop) this.go(place)
    }
    const held = (node, on, off) => {
      node.onpointerdown = (event) => {
        event.preventDefault()
        node.setPointerCapture(event.pointerId)
        this.pause()
        on(event)
        node.onpointermove = on
        node.onpointerup = node.onpointercancel = () => {
          node.onpointermove = node.onpointerup = node.onpointercancel = null
          off()
        }
      }
    }
    held(track, (event) => { move(event); this.knob.focus({ preventScroll: true }) },
      () => this.release("stop"))
    this.knob.onkeydown = (event) => {
      const last = this.view.stops.length - 1
      const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -3, PageUp: 3,
        Home: -last, End: last }
      if (!(event.key in steps)) return
      event.preventDefault()
      this.pause()
      this.go(Math.max(0, Math.min(last, this.stop + steps[event.key])))
      clearTimeout(this.soon)
      this.soon = setTimeout(() => this.release("stop"), 250)
    }
    const want = (event) => {
      this.wanted = this.rounded(this.level(event.clientY - this.frame.getBoundingClientRect().top))
      this.wish()
    }
    held(this.goal, want, () => this.release("wanted"))
    this.goal.onkeydown = (event) => {
      const steps = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 }
      if (!(event.key in steps)) return
      event.preventDefault()
      this.wanted = this.rounded(this.wanted + steps[event.key] * this.view.needed.step)
      this.wish()
      clearTimeout(this.later)
      this.later = setTimeout(() => this.release("wanted"), 250)
    }
  }

  // In steps, and on the axis.
  rounded(value) {
    const step = this.view.needed.step
    const [low, high] = this.view.layers[0].faces[0].figure.layout.yaxis.range.map((end) => end / step)
    const steps = Math.max(Math.ceil(low), Math.min(Math.floor(high), Math.round(value / step)))
    return Math.round(steps * step * 1e6) / 1e6
  }

  // Whether a quality is asked for that this chart can show: another metric has another axis.
  wishes() {
    const [low, high] = this.view.layers[0].faces[0].figure.layout.yaxis.range
    return this.wanted !== null && !!this.view.needed && low <= this.wanted && this.wanted <= high
  }

  go(place) {
    this.stop = place
    this.refresh()
  }

  play() {
    if (this.timer) return this.pause()
    if (this.stop === this.view.stops.length - 1) this.go(0)
    say(this.playing, "\u275a\u275a Pause")
    this.timer = setInterval(() => {
      if (this.stop === this.view.stops.length - 1) return this.pause()
      this.go(this.stop + 1)
    }, PLAY)
  }

  pause() {
    if (!this.timer) return
    clearInterval(this.timer)
    this.timer = null
    say(this.playing, "\u25b6 Play")
    this.release("stop")
  }

  get place() {
    return this.view.people && this.person !== "you" ? this.person : 0
  }

  // --- what moves -----------------------------------------------------------------------------

  refresh() {
    const view = this.view
    const now = view.stops[this.stop]
    this.turn()
    say(this.finding, this.over.stops[this.stop].words)
    this.track.style.setProperty("--x", `${this.at(this.stop)}px`)
    this.knob.setAttribute("aria-valuenow", this.stop)
    this.knob.setAttribute("aria-valuetext", `epsilon ${now.epsilon}: ${now.text}`)
    say(this.epsilon, `epsilon ${now.epsilon} ${view.unit}`)
    say(this.value, now.text)
    say(this.half, now.half)
    say(this.keeps, now.kept)
    if (view.people) this.shown()
    this.attacked()
    this.moved()
    this.wish()
  }

  moved() {
    if (!this.library || !this.plot.data || this.drawn === this.stop) return
    this.drawn = this.stop
    const { traces, data, layout } = this.over.stops[this.stop]
    this.library.update(this.plot, data, layout, traces)
  }

  shown() {
    const view = this.view
    const person = view.people[this.place]
    const you = this.person === "you"
    say(this.next, `${you ? "You" : person.name} \u203a`)
    show(this.enter, !you && !!view.six.length)
    show(this.you.box, you)
    if (you) return this.you.shown()
    const told = person.told ? person.told[this.stop] : null
    const pairs = person.cells.map((cell, k) => [cell.title, cell.text, told ? told.texts[k] : null,
      told ? told.changed[k] : false])
    const noisy = view.scores || []
    for (const one of noisy) {
      pairs.push([one.title, one.before, one.after[this.stop], null, one.query])
    }
    this.tiles(pairs)
    say(this.flips, told ? told.words : view.served)
    if (!view.lists) return
    const lists = view.lists[this.stop]
    const list = lists ? lists.items[this.person].map((item) => view.titles[item]) : []
    person.plain.forEach((item, k) => this.line(this.plain[k], view.titles[item], true))
    this.kept.forEach((node, k) => this.line(node, list[k] || "",
      lists && person.plain.includes(lists.items[this.person][k])))
    say(this.common, lists ? lists.shared[this.place] + " of " + person.plain.length
      + " are the same \u00b7 everyone's mean " + lists.everyone.toFixed(1) + " \u00b7 a popular list "
      + view.popular.toFixed(1) : "no lists at this epsilon")
  }

  line(node, title, same) {
    say(node, title)
    node.title = title
    node.classList.toggle("other", !same)
  }

  tiles(pairs) {
    while (this.cells.children.length > pairs.length) this.cells.lastChild.remove()
    pairs.forEach(([title, own, told, changed, query], k) => {
      let cell = this.cells.children[k]
      if (!cell) {
        cell = make("div", "dpmc-cell", this.cells)
        for (const name of ["dpmc-tile", "dpmc-to", "dpmc-tile", "dpmc-what-title"]) make("span", name, cell)
      }
      const [left, arrow, right, name] = cell.children
      say(left, own)
      say(arrow, "\u2192")
      say(right, told === null ? "" : told)
      show(arrow, told !== null)
      show(right, told !== null)
      right.classList.toggle("changed", changed === true)
      right.classList.toggle("noisy", changed === null)
      cell.classList.toggle("leaves", !!query && !(pairs[k - 1] || [])[4])
      say(name, title)
      name.title = query ? title + ": " + query : title
    })
  }

  attacked() {
    const view = this.view
    const asked = view.questions[this.place]
    const right = this.person === "you" ? this.you.right(this.asked)
      : view.right[this.place][this.asked][this.stop]
    say(this.right, right === null ? "No limit on an attacker is proved"
      : "Attacker right " + right + " times in 100")
    this.choices.forEach((button, k) => {
      say(button, k && this.person === "you" ? "all answers" : asked[k].short)
      button.title = asked[k].text
      button.setAttribute("aria-pressed", k === this.asked)
    })
    const game = view.games && view.games[this.asked]
    show(this.guesses, !!(game && game[this.stop]))
    if (this.dealt && (this.dealt.stop !== this.stop || this.dealt.asked !== this.asked)) this.fold()
  }

  // --- I need ... -----------------------------------------------------------------------------

  want() {
    const stops = this.view.stops.filter((stop) => stop.value !== null)
    const middle = stops[Math.floor(stops.length / 2)].value
    this.tell("wanted", this.wishes() ? null : this.rounded(middle))
    if (this.wishes()) this.goal.focus({ preventScroll: true })
  }

  wish() {
    const view = this.view
    const on = this.wishes() && this.over === view.layers[0].faces[0]
    show(this.goal, on)
    show(this.need, on)
    show(this.answer, on)
    this.needs.setAttribute("aria-pressed", on)
    if (!on) return
    const { step, first, answers } = view.needed
    const wanted = this.rounded(this.wanted)
    const { goal, words, at, low, high } = answers[Math.round(wanted / step) - first]
    const last = view.stops.length - 1
    this.goal.style.top = `${this.height(wanted)}px`
    this.goal.style.left = `${this.at(-view.room)}px`
    this.goal.style.width = `${this.at(last + view.room) - this.at(-view.room)}px`
    say(this.goalText, `I need ${goal}`)
    const [bottom, top] = view.layers[0].faces[0].figure.layout.yaxis.range
    this.goal.setAttribute("aria-valuemin", bottom)
    this.goal.setAttribute("aria-valuemax", top)
    this.goal.setAttribute("aria-label", "the wanted quality")
    this.goal.setAttribute("aria-valuenow", wanted)
    this.goal.setAttribute("aria-valuetext", goal)
    show(this.need, at !== null)
    say(this.answer, words)
    if (at === null) return
    const from = this.at(low)
    this.need.style.left = from + "px"
    this.need.style.width = Math.max(2, this.at(high === null ? last : high) - from) + "px"
    this.need.style.setProperty("--here", this.at(at) - from + "px")
  }

  // --- Guess ----------------------------------------------------------------------------------

  deal() {
    const view = this.view
    const game = view.games[this.asked][this.stop]
    const truth = Math.random() < 0.5
    const person = this.place
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
      seen = "The number that tells most is " + value.toFixed(1) + ": " + game.shift.toFixed(2)
        + " if yes, 0 if no, plus noise of size 1."
    }
    this.dealt = { truth, stop: this.stop, asked: this.asked }
    this.game.replaceChildren()
    make("p", "", this.game, seen + " " + view.questions[person][this.asked].text)
    const buttons = make("div", "dpmc-buttons", this.game)
    for (const [text, yes] of view.questions[person][this.asked].answers) {
      make("button", "", buttons, text).onclick = () => this.judge(yes)
    }
    show(this.game, true)
    this.game.querySelector("button").focus({ preventScroll: true })
  }

  judge(yes) {
    const right = yes === this.dealt.truth
    this.score = [this.score[0] + right, this.score[1] + 1]
    const bound = this.view.right[this.place][this.asked][this.stop]
    this.game.replaceChildren()
    make("p", "", this.game, (right ? "Right" : "Wrong") + ". You: " + this.score.join(" of ")
      + ". Nobody is right more than " + bound + " times in 100 in the long run.")
    const buttons = make("div", "dpmc-buttons", this.game)
    const again = make("button", "", buttons, "Again")
    again.onclick = () => this.deal()
    make("button", "", buttons, "Close").onclick = () => this.fold()
    again.focus({ preventScroll: true })
  }

  fold() {
    this.dealt = null
    this.score = [0, 0]
    this.game.replaceChildren()
  }

  end() {
    this.watch.disconnect()
    clearInterval(this.timer)
    clearTimeout(this.soon)
    clearTimeout(this.later)
    if (this.library && this.plot.data) this.library.purge(this.plot)
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
