// A slider that is the chart's own axis. Numbers come from the page, none between two stops.

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
const within = (value, low, high) => Math.max(low, Math.min(high, value))

let drawing = null // Plotly, fetched once

const plotly = (url) => {
  if (window.Plotly) return Promise.resolve(window.Plotly)
  return drawing ||= new Promise((done, fail) => {
    const script = make("script", "", document.head)
    script.onload = () => done(window.Plotly)
    script.onerror = () => { drawing = null; fail() }
    script.src = new URL(url, document.baseURI)
  })
}

class Instrument {
  constructor(root) {
    this.root = root
    this.stop = this.person = this.asked = 0
    this.wanted = null
    this.told = {} // to the page, and not yet heard back
    this.heard = {} // from it
    this.score = [0, 0]
    this.build()
    this.watch = new ResizeObserver(() => this.resized())
    this.watch.observe(this.frame)
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
    const choices = (name, parent, label) => {
      const all = this[name] = make("div", "dpmc-switch", parent)
      all.role = "group"
      all.ariaLabel = label
      return all
    }
    const slider = (name, parent, label) => {
      const node = add("div", name, parent)
      node.tabIndex = 0
      node.role = "slider"
      node.ariaLabel = label
    }
    // the chart and its slider
    const chart = add("section", "chart", root)
    const head = make("div", "dpmc-head", chart)
    this.title = make("strong", "", head)
    this.finding = make("span", "", head)
    button(head, "Save picture", () => this.save(), "dpmc-save")
    const frame = add("div", "frame", chart)
    add("div", "plot", frame)
    slider("goal", frame, "the wanted quality")
    this.goal.ariaOrientation = "vertical"
    this.goalText = make("span", "", this.goal)
    add("div", "need", frame)
    slider("knob", add("div", "track", frame), "epsilon")
    const sides = make("div", "dpmc-sides", chart)
    make("span", "", sides, "\u2190 more private")
    add("span", "legend", sides)
    this.axis = make("strong", "", sides)
    make("span", "", sides, "more accurate \u2192")
    // the answer
    const card = add("section", "card", root)
    card.ariaLabel = "At this epsilon"
    const number = add("div", "number", card)
    for (const name of ["epsilon", "value", "half"]) add("span", name, number)
    const rest = add("div", "rest", card)
    add("p", "keeps", rest)
    const attack = add("div", "attack", rest)
    this.right = make("p", "", attack)
    choices("asks", attack, "What the attacker asks")
    this.choices = [0, 1].map((k) => button(this.asks, "", () => this.tell("asked", k)))
    add("section", "lists", rest)
    const list = (title) => {
      const side = make("div", "", this.lists)
      make("h2", "", side, title)
      const all = make("ol", "", side)
      return Array.from({ length: 5 }, () => make("li", "", all))
    }
    this.plain = list("without privacy")
    this.kept = list("with privacy")
    this.common = make("p", "", this.lists)
    add("div", "game", rest)
    const promise = make("p", "dpmc-promise", rest)
    this.method = make("strong", "", promise)
    this.promise = make("span", "", promise)
    add("p", "answer", rest).ariaLive = "polite"
    const buttons = make("div", "dpmc-buttons", rest)
    this.playing = button(buttons, "\u25b6 Play", () => this.play())
    this.needs = button(buttons, "I need \u2026", () => this.want())
    this.guesses = button(buttons, "Guess", () => this.deal())
    // one person
    const who = add("section", "who", root)
    who.ariaLabel = "One person"
    const name = make("div", "dpmc-name", who)
    this.next = button(name, "", () =>
      this.tell("person", this.person === "you" ? 0 : (this.person + 1) % this.view.people.length), "dpmc-link")
    this.next.title = "Another person"
    this.enter = button(name, "Add yourself", () => {
      this.you.anew()
      this.tell("person", "you")
      this.you.asks.firstChild.focus({ preventScroll: true })
    })
    add("div", "cells", who)
    add("div", "flips", who)
    this.you = new You(this)
    this.drags()
  }

  // --- what the page says

  update(view, send) {
    this.send = send
    const known = this.view && this.view.id === view.id
    const first = !this.view
    this.view = view
    for (const name of ["stop", "person", "asked", "wanted"]) {
      // an echo of what was told must not undo what was done since
      const told = this.told[name] ||= []
      const place = told.indexOf(view[name])
      told.splice(0, place + 1)
      if (first || (place < 0 && !told.length && view[name] !== this.heard[name])) this[name] = view[name]
      this.heard[name] = view[name]
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
    this.told[name].push(this[name])
    this.send(name, this[name])
  }

  // --- what never moves

  draw() {
    const view = this.view
    const { style } = this.root
    for (const [name, value] of Object.entries(view.colors)) style.setProperty("--" + name, value)
    Object.assign(this.knob, { ariaValueMin: 0, ariaValueMax: this.last })
    say(this.axis, "epsilon " + view.unit)
    show(this.who, !!view.people)
    show(this.lists, !!view.people && !!view.lists)
    show(this.needs, !!view.needed)
    this.fold()
    say(this.method, view.method)
    say(this.promise, " " + view.promise[0].toLowerCase() + view.promise.slice(1))
    say(this.title, view.title)
    say(this.finding, view.finding)
    this.sides()
    plotly(view.plotly).then((library) => this.plotted(library), () => {})
  }

  // The same lines as a plain picture, until Plotly is there.
  sketch() {
    const path = ({ x, y }) => x.map((at, k) => this.at(at) + "," + this.height(y[k])).join(" ")
    const lines = this.figure.data.filter((trace) => trace.mode.startsWith("lines") && trace.x.length)
    this.plot.innerHTML = `<svg width="100%" height="100%" aria-hidden="true">${lines
      .map((trace) => trace.fill
        ? `<polygon points="${path(trace)}" fill="${trace.fillcolor}"/>`
        : `<polyline points="${path(trace)}" fill="none" stroke="${trace.line.color}"
             stroke-width="2" stroke-dasharray="${{ dash: "9 6", dot: "2 4" }[trace.line.dash] || ""}"/>`)
      .join("")}</svg>`
  }

  plotted(library) {
    const { data, layout } = JSON.parse(JSON.stringify(this.figure))
    if (!this.library) this.plot.replaceChildren()
    this.library = library
    const names = layout.annotations || [] // none before the first point
    const places = layout.meta?.[Math.floor(this.high / 20)]
    for (const k in places) Object.assign(names[k], { y: places[k], yref: "y" })
    if (this.narrow) {
      layout.showlegend = false
      layout.annotations = []
      layout.xaxis.ticktext = layout.xaxis.ticktext.map((text, k) => (this.numbered(k) ? text : ""))
    }
    // on a phone the names of lines stand below the chart instead of beside it
    say(this.legend, this.narrow ? names.map((one) => one.text.replaceAll("<br>", " ")).join(" \u00b7 ") : "")
    Object.assign(layout, { margin: this.margin, width: this.width, height: this.high })
    library.react(this.plot, data, layout, { displayModeBar: false, responsive: false })
    this.drawn = null
    this.moved()
  }

  // Whether a stop has its number, where there is no room for all: the last one has.
  numbered(k) {
    return !this.narrow || k === this.last || (k % 3 === 0 && k < this.last - 1)
  }

  // The picture in sight on a page of its own, with all that stands around it.
  save() {
    if (!this.library) return
    const { view, plot } = this
    const { xaxis, yaxis, margin, ...rest } = { ...this.figure.layout, ...view.picture.stops[this.stop].layout }
    const epsilon = "epsilon " + view.stops[this.stop].epsilon + " " + view.unit
    const text = "<b>" + view.data + ": " + view.method + ", " + epsilon + "</b><br>" + this.title.textContent
      + "<br><sup>" + view.told + "</sup>"
    const layout = {
      ...rest,
      paper_bgcolor: view.colors.paper,
      font: { family: "sans-serif" }, // the page's own is not in an image: names must be measured so
      title: { text, x: 0.02, y: 0.94, yanchor: "top", font: { size: 20 } },
      margin: { l: 80, r: 230, t: margin.t + 110, b: 70 },
      xaxis: { ...xaxis, title: { text: this.axis.textContent } },
      yaxis: { title: { text: view.title }, ...yaxis },
    }
    this.library.downloadImage({ data: plot.data, layout },
      { format: "png", scale: 2, width: 1120, height: 630, filename: "dpmc-lab" })
  }

  sides() {
    const { clientWidth, clientHeight } = this.frame
    this.width = clientWidth
    this.high = clientHeight
    this.narrow = clientWidth < NARROW
    this.margin = { ...this.figure.layout.margin }
    if (this.narrow) this.margin.r = 12
    this.root.style.setProperty("--left", this.margin.l + "px")
    this.root.style.setProperty("--right", this.margin.r + "px")
    if (this.library) this.plotted(this.library)
    else this.sketch()
  }

  resized() {
    const { clientWidth, clientHeight } = this.frame
    if (!this.view || !clientWidth || (this.width === clientWidth && this.high === clientHeight)) return
    this.sides()
    this.refresh()
  }

  // --- places: of stops across, of values down the picture

  get figure() {
    return this.view.picture.figure
  }

  get ends() {
    return this.figure.layout.yaxis.range
  }

  get last() {
    return this.view.stops.length - 1
  }

  // Pixels of a stop.
  get step() {
    return (this.width - this.margin.l - this.margin.r) / (this.last + 2 * this.view.room)
  }

  at(place) {
    return this.margin.l + (place + this.view.room) * this.step
  }

  near(pixel) {
    return within(Math.round((pixel - this.margin.l) / this.step - this.view.room), 0, this.last)
  }

  // Pixels of a unit.
  get scaled() {
    const { t, b } = this.margin
    return (this.frame.clientHeight - t - b) / (this.ends[1] - this.ends[0])
  }

  level(pixel) {
    return this.ends[1] - (pixel - this.margin.t) / this.scaled
  }

  height(value) {
    return this.margin.t + (this.ends[1] - value) * this.scaled
  }

  // --- moving

  drags() {
    const move = (event) => {
      const place = this.near(event.clientX - this.frame.getBoundingClientRect().left)
      if (place !== this.stop) this.go(place)
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
        this.release(name)
      }
    }
    held(this.track, "stop", (event) => { move(event); this.knob.focus({ preventScroll: true }) })
    const want = (event) => {
      this.wanted = this.rounded(this.level(event.clientY - this.frame.getBoundingClientRect().top))
      this.wish()
    }
    held(this.goal, "wanted", want)
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -3, PageUp: 3,
      Home: -Infinity, End: Infinity }
    const keyed = (node, name, act) => {
      let later = 0
      node.onkeydown = (event) => {
        if (!(event.key in steps)) return
        event.preventDefault()
        this.pause()
        act(steps[event.key])
        clearTimeout(later)
        later = setTimeout(() => this.release(name), 250)
      }
    }
    keyed(this.knob, "stop", (step) => this.go(within(this.stop + step, 0, this.last)))
    keyed(this.goal, "wanted", (step) => {
      this.wanted = this.rounded(this.wanted + step * this.view.needed.step)
      this.wish()
    })
  }

  // In steps, and on the axis.
  rounded(value) {
    const step = this.view.needed.step
    const [low, high] = this.ends.map((end) => end / step)
    return Math.round(within(Math.round(value / step), Math.ceil(low), Math.floor(high)) * step * 1e6) / 1e6
  }

  // Whether a quality is asked for that is on this axis.
  wishes() {
    const { wanted, ends } = this
    return wanted !== null && !!this.view.needed && wanted === within(wanted, ...ends)
  }

  go(place) {
    this.stop = place
    this.refresh()
  }

  play() {
    if (this.timer) return this.pause()
    if (this.stop === this.last) this.go(0)
    say(this.playing, "\u275a\u275a Pause")
    this.timer = setInterval(() => {
      if (this.stop === this.last) return this.pause()
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

  // --- what moves

  refresh() {
    const view = this.view
    const now = view.stops[this.stop]
    this.track.style.setProperty("--x", this.at(this.stop) + "px")
    this.knob.ariaValueNow = this.stop
    this.knob.ariaValueText = "epsilon " + now.epsilon + ": " + now.text
    say(this.epsilon, "epsilon " + now.epsilon + " " + view.unit)
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
    const { traces, data, layout } = this.view.picture.stops[this.stop]
    this.library.update(this.plot, data, layout, traces)
  }

  shown() {
    const view = this.view
    const person = view.people[this.place]
    const you = this.person === "you"
    say(this.next, (you ? "You" : person.name) + " \u203a")
    show(this.enter, !you && !!view.six.length)
    show(this.you.box, you)
    if (you) return this.you.shown()
    const told = person.told[this.stop]
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
    const named = (items) => items.map((item) => view.titles[item])
    this.listed(lists && named(person.plain), lists && named(lists.items[this.person]), lists
      ? lists.shared[this.place] + " of 5 stay; people average " + lists.everyone.toFixed(1)
        + ", a popular list " + view.popular.toFixed(1)
      : "no lists at this epsilon")
  }

  // Two lists, if there are any, and what is said of them.
  listed(plain, kept, words) {
    for (const side of this.lists.querySelectorAll("div")) show(side, !!plain)
    say(this.common, words)
    const fill = (nodes, titles) => nodes.forEach((node, k) => {
      say(node, titles[k])
      node.title = titles[k]
      node.classList.toggle("other", !plain.slice(0, 5).includes(titles[k]))
    })
    if (!plain) return
    fill(this.plain, plain)
    fill(this.kept, kept)
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
      say(right, told ?? "")
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
    say(this.right, right)
    this.choices.forEach((button, k) => {
      say(button, k && this.person === "you" ? "all answers" : asked[k].short)
      button.title = asked[k].text
      button.ariaPressed = k === this.asked
    })
    show(this.guesses, !!view.games[this.asked][this.stop])
    if (this.dealt && (this.dealt.stop !== this.stop || this.dealt.asked !== this.asked)) this.fold()
  }

  // --- I need ...

  want() {
    const stops = this.view.stops.filter((stop) => stop.value !== null)
    const middle = stops[Math.floor(stops.length / 2)].value
    this.tell("wanted", this.wishes() ? null : this.rounded(middle))
    if (this.wishes()) this.goal.focus({ preventScroll: true })
  }

  wish() {
    const view = this.view
    const on = this.wishes()
    show(this.goal, on)
    show(this.need, on)
    show(this.answer, on)
    this.needs.ariaPressed = on
    if (!on) return
    const { step, first, answers } = view.needed
    const wanted = this.rounded(this.wanted)
    const { goal, words, at, low, high } = answers[Math.round(wanted / step) - first]
    this.goal.style.top = this.height(wanted) + "px"
    say(this.goalText, "I need " + goal)
    const [ariaValueMin, ariaValueMax] = this.ends
    Object.assign(this.goal, { ariaValueMin, ariaValueMax, ariaValueNow: wanted, ariaValueText: goal })
    show(this.need, at !== null)
    say(this.answer, words)
    if (at === null) return
    const from = this.at(low)
    this.need.style.left = from + "px"
    this.need.style.width = Math.max(2, this.at(high ?? this.last) - from) + "px"
    this.need.style.setProperty("--here", this.at(at) - from + "px")
  }

  // --- Guess

  deal() {
    const { view, asked, stop } = this
    const game = view.games[asked][stop]
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
      seen = "The number that tells most is " + value.toFixed(1) + ": " + game.shift.toFixed(2)
        + " if yes, 0 if no, plus noise of size 1."
    }
    this.dealt = { truth, stop, asked }
    const { text, answers } = view.questions[this.place][asked]
    this.board(seen + " " + text, answers.map((name, k) => [name, () => this.judge(!k)]))
  }

  // What is said in a game, and its buttons.
  board(words, acts) {
    this.game.replaceChildren()
    make("p", "", this.game, words)
    const all = make("div", "dpmc-buttons", this.game)
    for (const [text, act] of acts) make("button", "", all, text).onclick = act
    all.firstChild.focus({ preventScroll: true })
  }

  judge(yes) {
    const right = yes === this.dealt.truth
    this.score = [this.score[0] + right, this.score[1] + 1]
    this.board((right ? "Right" : "Wrong") + ". You: " + this.score.join(" of ") + ". "
      + this.view.right[this.place][this.asked][this.stop],
    [["Again", () => this.deal()], ["Close", () => this.fold()]])
  }

  fold() {
    this.dealt = null
    this.score = [0, 0]
    this.game.replaceChildren()
  }

  end() {
    this.watch.disconnect()
    clearInterval(this.timer)
    this.send = () => {}
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
