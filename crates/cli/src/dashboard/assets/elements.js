// Elements of the page. Every text becomes a text node, so that no text of a cluster can become markup.

export const byId = (id) => document.getElementById(id);

/** A new element. Children are elements or texts. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** A new element of a drawing. */
export function shape(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  if (text !== undefined) {
    made.textContent = text;
  }
  return made;
}

export function button(label, onClick, attributes = {}) {
  const made = element("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", onClick);
  return made;
}

/** The name of a phase, with its colour. */
export function phaseLabel(phase) {
  return element("span", { class: "phase" }, element("span", { class: `swatch ${phase}` }), phase);
}

/**
 * Replaces the content of an element unless it shows the same already. The focus goes to what has the same `data-key` in the new
 * content, because a keyboard would otherwise begin at the top of the page again.
 */
export function replace(target, key, make) {
  if (target.shownKey !== key) {
    target.shownKey = key;
    const focused = target.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    target.replaceChildren(...make());
    if (focused !== undefined) {
      [...target.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focused)?.focus();
    }
  }
}

/** Changes a text in place, if it is another one. */
export function setText(target, text) {
  if (target.textContent !== text) {
    target.textContent = text;
  }
}

const numbers = new Intl.NumberFormat();
export const number = (value) => numbers.format(value);
export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

/** A length of time in at most two units, as kubectl writes it. */
export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  const [m, h, d] = [Math.floor(s / 60), Math.floor(s / 3600), Math.floor(s / 86400)];
  const two = (large, a, small, b) => (small ? `${large}${a}${small}${b}` : `${large}${a}`);
  if (s < 120) return `${s}s`;
  if (m < 10) return two(m, "m", s % 60, "s");
  if (m < 180) return `${m}m`;
  if (h < 48) return two(h, "h", m % 60, "m");
  return two(d, "d", h % 24, "h");
}

export const now = () => Date.now() / 1000;

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const exact = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});
const dated = new Intl.DateTimeFormat(undefined, {
  month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23",
});
/** A time of day, with the seconds if the span is short, and with the date if it is long. */
export const time = (seconds, span = Infinity) => {
  const format = span < 900 ? exact : span < 72000 ? clock : dated;
  return format.format(seconds * 1000);
};
