// Why clusters failed or wait, in groups. Choosing one shows its clusters on the map.

import { button, byId, element, number, phaseLabel, plural, replace, setText } from "./elements.js";

/** Shows no causes, because they are not known yet. */
export function forgetCauses() {
  replace(byId("causes"), "unknown", () => []);
}

/** Shows the causes. `chosen` is the one that the map is filtered by, `choose(cause)` chooses another one. */
export function showCauses({ causes, more }, chosen, choose) {
  const target = byId("causes");
  const kinds = causes.map((cause) => [...identity(cause), Boolean(cause.message)]);
  // Numbers and examples change all the time. They change in place, so that a button is there until it is released.
  replace(target, JSON.stringify([kinds, more, chosen && identity(chosen)]), () => {
    if (!causes.length) {
      return [element("li", { class: "quiet" }, "No cluster failed or waits.")];
    }
    const items = causes.map((cause) => item(cause, chosen, choose));
    if (more) {
      items.push(element("li", { class: "quiet" }, `${plural(more, "more cause")} of fewer clusters`));
    }
    return items;
  });
  causes.forEach((cause, index) => update(target.children[index], cause));
}

/** What tells a group from all others. Two gates or two risks have the same phase and reason. */
const identity = ({ phase, reason, subject }) => [phase, reason, subject];

export const isSame = (a, b) => Boolean(a && b) && identity(a).every((part, index) => part === identity(b)[index]);

function item(cause, chosen, choose) {
  const head = button("", () => choose(cause), {
    "aria-pressed": isSame(cause, chosen),
    "data-key": identity(cause).join(" "),
  });
  head.append(phaseLabel(cause.phase), cause.reason, element("b"));
  const made = element("li", {}, head);
  if (cause.message) {
    made.append(element("p"));
  }
  made.append(element("p", { class: "quiet" }));
  return made;
}

function update(shown, cause) {
  const label = `${[cause.reason, cause.subject].filter(Boolean).join(" ")}, ${cause.phase}, ${plural(cause.clusters, "cluster")}: show them on the map`;
  shown.firstElementChild.setAttribute("aria-label", label);
  setText(shown.querySelector("b"), number(cause.clusters));
  if (cause.message) {
    setText(shown.children[1], `${cause.example}: ${cause.message}`);
  }
  setText(shown.lastElementChild, cause.remedy);
}
