// The visitor in the picture. Answers live in this memory alone: nothing here sends or stores.

// n reports, k of them a like
const likely = ([no, yes], n, k) => no ** (n - k) * yes ** k

// How often the best attacker is right, from 50:50 and n reports of one answer.
const rightly = ({ no, yes }, n) => {
  let sum = 0
  for (let k = 0, ways = 0.5; k <= n; ways *= (n - k++) / k) {
    sum += ways * Math.max(likely(no, n, k), likely(yes, n, k))
  }
  return sum
}

// Ridge regression. rows: scores before any answer, and products with the six; values: NaN if skipped
const fold = (rows, places, values, ridge) => {
  const weights = places.map(() => 0)
  const score = ([base, ...products]) => products.reduce((sum, by, k) => sum + by * weights[k], base)
  for (let turn = 0; turn < 300; turn += 1) {
    places.forEach((place, k) => {
      const left = values[k] - score(rows[place]) - ridge * weights[k]
      weights[k] += (left || 0) / (rows[place][k + 1] + ridge)
    })
  }
  return rows.map(score)
}

const unpack = ({ numbers, unit, spread, titles }) => {
  const found = new Int16Array(Uint8Array.from(atob(numbers), (c) => c.charCodeAt()).buffer)
  const part = (list, size, make) => list.map((_, k) => make(k * size))
  return part(spread, titles.length * 7, (at) =>
    part(titles, 7, (row) => Array.from(found.slice(at + row, at + row + 7), (v) => v * unit)))
}

const sign = (likes) => (likes ? "+" : "\u2212")

class You {
  constructor(stage, parent) {
    this.stage = stage
    this.box = make("div", "dpmc-you", parent)
    this.said = make("p", "", this.box)
    this.said.setAttribute("aria-live", "polite")
    const row = (acts) => {
      const all = make("div", "dpmc-buttons", this.box)
      for (const [text, act] of acts) {
        make("button", "", all, text).onclick = () => { act(); stage.refresh() }
      }
      return all
    }
    this.asks = row([["Like", 1], ["Dislike", -1], ["Skip", 0]].map(([text, likes]) =>
      [text, () => this.answers.push(likes)]))
    this.plays = row([
      ["Another coin (imagined, free)", () => { this.coins = this.coins.map(() => this.draw()) }],
      ["Send again (spends)", () => this.coins.push(this.draw())],
    ])
    const zoom = make("div", "dpmc-zoom", this.plays)
    make("strong", "", zoom, "A count of likes from such reports is off by about")
    this.bars = [1, 2, 3].map(() => ["span", "meter"].map((tag) => make(tag, "", zoom)))
  }

  meet(six) {
    if (JSON.stringify(six) === JSON.stringify(this.six)) return
    this.six = six
    this.anew()
  }

  anew() {
    this.answers = []
    this.coins = [this.draw()]
  }

  // One number an answer for every epsilon: of such reports only one may ever be sent.
  draw() {
    return this.six.map(Math.random)
  }

  get count() {
    return this.answers.filter(Boolean).length
  }

  // In the words of the page.
  right() {
    const { view, stop } = this.stage
    const share = rightly(view.games[stop], this.coins.length)
    const near = ["50", "100"].includes((100 * share).toFixed())
    return view.question.limit.replace("{}", share > 0.999 ? "may be right over 99.9 %"
      : "is right at most " + (100 * share).toFixed(near ? 1 : 0) + " %")
  }

  shown() {
    const { stage, six, answers, coins } = this
    const { view, stop } = stage
    const { no, yes, gain, noise } = view.flips[stop]
    const n = coins.length
    const told = answers.map((own, k) =>
      coins.map((coin) => coin[k] < (own > 0 ? yes : no) === own < 0))
    const likes = told.map((reports) => reports.filter(Boolean).length)
    const game = view.games[stop]
    const tiles = answers.map((own, k) => [six[k].kind, sign(own > 0),
      n > 1 ? likes[k] + "+ of " + n : sign(likes[k]),
      // of two as likely the first report decides
      own * (likely(game.yes, n, likes[k]) - likely(game.no, n, likes[k]) || told[k][0] - 0.5) < 0])
      .filter((_, k) => answers[k])
    stage.tiles(tiles)
    const next = six[answers.length]
    const moves = !next && this.asks.contains(document.activeElement)
    show(this.asks, !!next)
    show(this.plays, !next)
    if (moves) this.plays.firstChild.focus()
    const spent = (times) => Number((times * view.stops[stop].epsilon).toFixed(2))
    say(this.said, next ? "Do you like this kind? " + (answers.length + 1) + " of 6: " + next.kind + ", " + next.line
      : "Reports of each answer: " + n + ". Epsilon: " + spent(n) + " for each answer, "
        + spent(n * this.count) + " in all. " + this.right() + " " + view.yours.said[stop])
    for (const [k, count] of [1, 30, six[0].rated].entries()) {
      const off = Math.sqrt(noise / n / count) / 2
      const [name, bar] = this.bars[k]
      bar.value = off
      say(name, (100 * off).toFixed(0) + " % for " + (k ? count + " people" : "you alone"))
    }
    this.listed(likes.map((count, k) => (answers[k] ? (2 * count / n - 1 + yes - no) / gain : NaN)), noise / n)
  }

  // With privacy, from reports: the card publishes no own side.
  listed(values, noise) {
    const { stage } = this
    const { yours, stops } = stage.view
    if (this.text !== yours.numbers) {
      this.text = yours.numbers
      this.rows = unpack(yours)
    }
    const list = (at, told, spread) => {
      const scores = fold(this.rows[at], yours.places, told, yours.spread[at] + spread)
      for (const place of yours.places) scores[place] = -Infinity
      return [...scores.keys()].sort((a, b) => scores[b] - scores[a]).map((k) => yours.titles[k])
    }
    stage.listed(list(stops.length, this.answers.map((own) => own || NaN), 0), list(stage.stop, values, noise),
      "Without privacy this list is " + yours.names[stops.length] + "; with privacy it is "
        + yours.names[stage.stop] + ".")
  }
}

