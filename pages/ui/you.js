// The visitor in the picture: answers to six cards, noisy reports of them, and lists folded from
// both. Nothing here sends or stores anything: answers live in the browser's memory alone.

// How likely n reports with k likes among them are, by the chances of each report.
const likely = ([no, yes], n, k) => no ** (n - k) * yes ** k

// How often the best attacker is right who starts at 50:50 and sees n reports of one answer.
const rightly = ({ no, yes }, n) => {
  let sum = 0
  for (let k = 0, ways = 0.5; k <= n; ways *= (n - k++) / k) {
    sum += ways * Math.max(likely(no, n, k), likely(yes, n, k))
  }
  return sum
}

// x of a x = b, where a is symmetric and positive.
const solve = (a, b) => {
  const rows = a.map((row, i) => [...row, b[i]])
  rows.forEach((pivot, i) => rows.forEach((row, j) => {
    const by = i === j ? 0 : row[i] / pivot[i]
    pivot.forEach((value, k) => { row[k] -= by * value })
  }))
  return rows.map((row, i) => row.at(-1) / row[i])
}

// Ridge regression: scores of all titles, from values about the signs of those asked for.
const fold = ({ places, spread, unit }, numbers, at, asked, values, noise) => {
  const size = numbers.length / spread.length / 7
  const number = (item, k) => numbers[(at * size + item) * 7 + k] * unit
  const gram = asked.map((a) => asked.map((b) =>
    number(places[a], b + 1) + (a === b) * (spread[at] + noise)))
  const weights = solve(gram, values.map((value, k) => value - number(places[asked[k]], 0)))
  return Array.from({ length: size }, (_, item) =>
    asked.reduce((sum, a, k) => sum + weights[k] * number(item, a + 1), number(item, 0)))
}

const sign = (likes) => (likes ? "+" : "\u2212")

class You {
  constructor(stage) {
    this.stage = stage
    this.box = make("div", "dpmc-you", stage.who)
    this.said = make("p", "", this.box)
    this.said.setAttribute("aria-live", "polite")
    const row = (acts) => {
      const all = make("div", "dpmc-buttons", this.box)
      for (const [text, act] of acts) {
        make("button", "", all, text).onclick = () => { act(); stage.refresh() }
      }
      return all
    }
    this.asks = row([["Like", true], ["Dislike", false], ["Skip"]].map(([text, likes]) =>
      [text, () => this.answers.push(likes)]))
    this.plays = row([
      ["Another coin (imagined, free)", () => { this.coins = this.coins.map(() => this.draw()) }],
      ["Send again (spends)", () => this.coins.push(this.draw())],
    ])
    this.zoom = make("div", "dpmc-zoom", this.box)
    this.bars = [1, 2, 3].map(() => ["span", "meter"].map((tag) => make(tag, "", this.zoom)))
  }

  // Other cards are other questions; another epsilon keeps the answers.
  meet(six) {
    const cards = JSON.stringify(six)
    if (cards === this.cards) return
    this.cards = cards
    this.six = six
    this.anew()
  }

  anew() {
    this.answers = []
    this.coins = [this.draw()]
  }

  // One number an answer for every epsilon: of two such reports, at two epsilons, one at most may
  // ever be sent.
  draw() {
    return this.six.map(Math.random)
  }

  get game() {
    return this.stage.view.games[0][this.stage.stop]
  }

  get asked() {
    return [...this.answers.keys()].filter((k) => this.answers[k] !== undefined)
  }

  // Out of a hundred, about one answer or all of them.
  right(all) {
    const share = rightly(this.game, this.coins.length * (all ? this.asked.length : 1))
    return share < 0.995 ? (100 * share).toFixed() : ">99"
  }

  shown() {
    const { stage, six, answers, coins, asked, game } = this
    const wrong = [game.no[1], game.yes[0]]
    const gain = 1 - wrong[0] - wrong[1]
    const n = coins.length
    const likes = asked.map((k) =>
      coins.filter((coin) => (coin[k] < wrong[Number(answers[k])]) !== answers[k]).length)
    const known = likes.filter((count, k) => {
      const [own, other] = answers[asked[k]] ? [game.yes, game.no] : [game.no, game.yes]
      return likely(own, n, count) > likely(other, n, count)
    })
    stage.tiles(asked.map((k, j) => [six[k].kind, sign(answers[k]),
      n > 1 ? likes[j] + "+ of " + n : sign(likes[j]), (likes[j] * 2 > n) !== answers[k]]))
    say(stage.flips, known.length + " of " + asked.length + " guessed right")
    const next = six[answers.length]
    const moves = !next && this.asks.contains(document.activeElement)
    show(this.asks, !!next)
    show(this.plays, !next)
    show(this.zoom, !next)
    if (moves) this.plays.firstChild.focus()
    const spent = Number((n * stage.view.stops[stage.stop].epsilon).toFixed(2))
    say(this.said, next ? answers.length + 1 + " of 6: " + next.kind + ", " + next.line
      : "Reports of each answer: " + n + ", epsilon " + spent + " in all; of each the attacker is right "
        + this.right() + " times in 100.")
    // of reports made unbiased, about a sign; a share has half of it
    const noise = wrong.reduce((sum, p) => sum + 2 * p * (1 - p), 0) / gain ** 2 / n
    for (const [k, count] of [1, 30, six[0].rated].entries()) {
      const [name, bar] = this.bars[k]
      bar.value = Math.sqrt(noise / count) / 2
      say(name, (k ? "of " + count : "A share told by you") + ": \u00b1 "
        + (50 * Math.sqrt(noise / count)).toPrecision(2) + " in 100")
    }
    this.listed(likes.map((count) => (2 * count / n - 1 + wrong[1] - wrong[0]) / gain), noise)
  }

  // With privacy from the reports: the card publishes nothing that answers kept here could join.
  listed(values, noise) {
    const { stage, asked } = this
    const { yours, stops } = stage.view
    if (yours && this.text !== yours.numbers) {
      this.text = yours.numbers
      this.numbers = new Int16Array(Uint8Array.from(atob(this.text), (c) => c.charCodeAt()).buffer)
    }
    const list = (at, signs, spread) => {
      if (!yours) return []
      const scores = fold(yours, this.numbers, at, asked, signs, spread)
      for (const k of asked) scores[yours.places[k]] = -Infinity
      return [...scores.keys()].sort((a, b) => scores[b] - scores[a]).map((k) => yours.titles[k])
    }
    const plain = list(stops.length, asked.map((k) => (this.answers[k] ? 1 : -1)), 0)
    const kept = list(stage.stop, values, noise)
    stage.plain.forEach((node, k) => stage.line(node, plain[k] || "", true))
    stage.kept.forEach((node, k) => stage.line(node, kept[k] || "", plain.indexOf(kept[k]) < 5))
    say(stage.common, yours ? yours.said[stops.length] + " | " + yours.said[stage.stop] : "Your lists are on their way.")
  }
}

