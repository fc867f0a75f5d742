// In a file of its own, in the instrument's module. Nothing is asked for, and nothing is written but
// the hash of the address.

const file = JSON.parse(document.getElementById("content").textContent)
const notes = [...document.querySelectorAll(".note")]
const radios = [...document.querySelectorAll("input[name=view]")]
const instrument = new Instrument(document.querySelector(".dpmc-what"))
const at = { view: 0, ...file.stands }
const NUMBERS = [["target", "need"], ["target", "target"], ["limit", "limit"], ["pinned", "pinned"]] // first by an older name

// Junk is left out: what is not said stands as the file was made.
const read = () => {
  const said = new URLSearchParams(location.hash.slice(1))
  const view = file.views.findIndex((one) => one.mechanism === said.get("mechanism"))
  if (view >= 0) at.view = view
  const { shown } = file.views[at.view]
  const epsilon = Number(said.get("epsilon"))
  if (shown.stops.some((stop) => stop.epsilon === epsilon)) at.epsilon = epsilon
  const person = said.get("person")
  if (/^\d+$/.test(person) && shown.people?.[person]) at.person = Number(person)
  for (const [name, key] of NUMBERS) {
    if (said.get(key) && isFinite(said.get(key))) at[name] = Number(said.get(key))
  }
}

const write = () => {
  const { mechanism } = file.views[at.view]
  const said = new URLSearchParams({ mechanism, epsilon: at.epsilon, person: at.person })
  for (const name of ["target", "limit", "pinned"]) if (at[name] !== null) said.set(name, at[name])
  history.replaceState(null, "", "#" + said)
}

const covers = () => {
  const list = notes[at.view].querySelector("dl")
  list.replaceChildren()
  for (const [name, text] of file.views[at.view].cards[instrument.index]) {
    make("dt", "", list, name)
    make("dd", "", list, text)
  }
}

const draw = () => {
  instrument.update({ ...file.views[at.view].shown, ...at }, (name, value) => {
    at[name] = value
    draw()
    write()
  })
  radios.forEach((radio, k) => { radio.checked = k === at.view })
  notes.forEach((note, k) => show(note, k === at.view))
  covers()
}

radios.forEach((radio, k) => {
  radio.onchange = () => {
    instrument.pause()
    at.view = k
    draw()
    write()
  }
})
addEventListener("hashchange", () => { read(); draw() })
read()
draw()
