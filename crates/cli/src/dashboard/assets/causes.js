// Why clusters failed or wait, in groups. Choosing one shows its clusters on the map.

import { button, byId, element, number, phaseLabel, plural, replace } from "./elements.js";

/** Shows the causes. `chosen` is the one that the map is filtered by, `choose(cause)` chooses another one. */
export function showCauses({ causes, more }, chosen, choose) {
  const target = byId("causes");
  replace(target, JSON.stringify([causes, more, chosen]), () => {
    if (!causes.length) {
      return [element("li", { class: "quiet" }, "No cluster failed or waits.")];
    }
    const items = causes.map((cause) => item(cause, chosen, choose));
    if (more) {
      items.push(element("li", { class: "quiet" }, `${plural(more, "more cause")} of fewer clusters`));
    }
    return items;
  });
}

export const isSame = (a, b) => Boolean(a && b) && a.phase === b.phase && a.reason === b.reason;

function item(cause, chosen, choose) {
  const head = button("", () => choose(cause), {
    "aria-pressed": isSame(cause, chosen),
    "aria-label": `${cause.reason}, ${cause.phase}, ${plural(cause.clusters, "cluster")}: show them on the map`,
  });
  head.append(phaseLabel(cause.phase), cause.reason, element("b", {}, number(cause.clusters)));
  const made = element("li", {}, head);
  if (cause.message) {
    made.append(element("p", {}, `${cause.example}: ${cause.message}`));
  }
  made.append(element("p", { class: "quiet" }, cause.remedy));
  return made;
}
