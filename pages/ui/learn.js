// What is done is kept in this browser, since a reload begins a new session. What is new gets the
// focus, and so is read aloud. What is found is read out again whenever it changes.
const STORE = "dpmc-lessons";
export default function ({ data, parentElement, setStateValue }) {
  const { place, focus, projector, progress } = data, before = parentElement.place;
  parentElement.place = place;
  try {
    const stored = JSON.parse(localStorage.getItem(STORE)) ?? {};
    const all = { steps: { ...stored.steps, ...progress.steps },
      done: [...new Set([...stored.done ?? [], ...progress.done])] };
    localStorage.setItem(STORE, JSON.stringify(all));
    const count = ({ steps, done }) => Object.keys(steps).length + done.length;
    if (before === undefined && count(all) > count(progress)) setStateValue("remembered", all);
  } catch { /* a browser that keeps nothing */ }
  const end = performance.now() + 1500;
  const look = () => {
    const found = document.querySelector(focus), late = performance.now() > end;
    if (found && (late || !found.closest('[data-stale="true"]'))) {
      found.tabIndex = -1;
      found.style.outline = "none";
      found.focus({ preventScroll: true });
      found.scrollIntoView({ block: "nearest" });
    } else if (!late) requestAnimationFrame(look);
  };
  if (before !== undefined && before !== place) requestAnimationFrame(look);
  document.querySelector(".st-key-finding")?.setAttribute("aria-live", "polite");
  const press = event => {
    const turn = findTurn(event, projector);
    const button = turn && document.querySelector(`.st-key-${turn} button:enabled`);
    if (!button) return;
    event.preventDefault();
    button.click();
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}
