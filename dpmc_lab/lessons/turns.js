// Arrows turn the steps but where an arrow moves something; a presenter's clicker sends page keys.
const BUSY = `input:not([type="checkbox"]), textarea, select, [contenteditable], [role="slider"],
  [role="radio"], [role="tab"], [role="menu"], [role="menuitem"], [role="listbox"], [role="dialog"],
  [data-testid="stButtonGroup"], [data-testid="stDataFrame"]`;
const findTurn = (event, projector) => {
  const held = event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.repeat;
  if (held || event.defaultPrevented || event.composedPath().some(node => node.matches?.(BUSY)))
    return "";
  const clicks = projector && { PageDown: "next", PageUp: "back" };
  return { ArrowRight: "next", ArrowLeft: "back", ...clicks }[event.key];
};
