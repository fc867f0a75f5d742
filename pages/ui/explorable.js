// In a file of its own, in the instrument's module. Nothing is asked for, and nothing is written but
// the hash of the address.

// Plotly is packed, which halves the file. A browser that cannot unpack it keeps the plain picture.
const unpackPlotly = async () => {
  const text = atob(document.getElementById("plotly").textContent)
  const packed = new Blob([Uint8Array.from(text, (one) => one.charCodeAt(0))])
  const code = new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).text()
  make("script", "", document.head, await code)
  return window.Plotly
}
drawing = unpackPlotly()

const file = JSON.parse(document.getElementById("content").textContent)
const dark = matchMedia("(prefers-color-scheme: dark)")
const notes = [...document.querySelectorAll(".note")]
const radios = [...document.querySelectorAll("input[name=view]")]
const instrument = new Instrument(document.querySelector(".dpmc-what"))
const at = { view: 0, ...file.stands }

// Junk is left out: what is not said stands as the file was made.
const read = () => {
  const said = new URLSearchParams(location.hash.slice(1))
  const view = file.views.findIndex((one) => one.mechanism === said.get("mechanism"))
  if (view >= 0) at.view = view
  const stop = file.views[at.view].light.stops.findIndex((one) => one.epsilon === said.get("epsilon"))
  if (stop >= 0) at.stop = stop
  const people = file.views[at.view].light.people || []
  for (const [name, most] of [["person", people.length], ["asked", 2]]) {
    if (/^\d+$/.test(said.get(name)) && Number(said.get(name)) < most) at[name] = Number(said.get(name))
  }
  if (said.get("need") && Number.isFinite(Number(said.get("need")))) at.wanted = Number(said.get("need"))
}

const write = () => {
  const view = file.views[at.view]
  const said = new URLSearchParams({ mechanism: view.mechanism, epsilon: view.light.stops[at.stop].epsilon,
    person: at.person, asked: at.asked })
  if (at.wanted !== null) said.set("need", at.wanted)
  history.replaceState(null, "", "#" + said)
}

const covers = () => {
  const list = notes[at.view].querySelector("dl")
  list.replaceChildren()
  for (const [name, text] of file.views[at.view].cards[at.stop]) {
    make("dt", "", list, name)
    make("dd", "", list, text)
  }
}

const draw = () => {
  const { light, dark: night } = file.views[at.view]
  instrument.update({ ...light, ...(dark.matches ? night : {}), ...at }, (name, value) => {
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
dark.addEventListener("change", draw)
addEventListener("hashchange", () => { read(); draw() })
read()
draw()
