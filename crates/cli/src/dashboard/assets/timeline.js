// How many clusters had started, and how many had ended, at each time. What lies between the lines is under way.

import { byId, element, number, replace, shape, time } from "./elements.js";

const HEIGHT = 170;
const MARGIN = { left: 44, right: 8, top: 8, bottom: 22 };
const STEPS = 180;
const TABLE_STEPS = 12;

/**
 * Draws the timeline of these clusters up to now or to the end of the upgrade, and beside it when the upgrade is expected to end, unless
 * that is so far away that the past would take less than half of the width: then only the words below say it. Times are in seconds.
 */
export function drawTimeline(fleet, now, upgrade) {
  const series = seriesOf(fleet, now, upgrade);
  const target = byId("timeline");
  if (!series) {
    const text = fleet.isKnown ? "No cluster has started yet." : "";
    replace(target, `none ${text}`, () => [element("p", { class: "quiet" }, text)]);
    byId("timeline-rows").replaceChildren();
    return;
  }
  target.shownKey = "drawn";
  target.replaceChildren(drawing(series, Math.max(320, target.clientWidth)), key(series), ...forecast(series));
  byId("timeline-rows").replaceChildren(...rows(series));
}

/** Sorted times of starts and ends; null if nothing has started. */
function seriesOf(fleet, now, upgrade) {
  const [starts, complete, failed, leftOut] = [[], [], [], []];
  const ends = { Failed: failed, Skipped: leftOut, Aborted: leftOut };
  for (const tile of fleet.tiles) {
    if (tile.start === null) continue;
    starts.push(tile.start);
    if (tile.end !== null) (ends[fleet.phaseOf(tile)] ?? complete).push(tile.end);
  }
  if (!starts.length) {
    return null;
  }
  [starts, complete, failed, leftOut].forEach((times) => times.sort((a, b) => a - b));
  // Clusters that were left out before they started have an end, and no start.
  const completed = upgrade?.completed ? Date.parse(upgrade.completed) / 1000 : null;
  const isOver = completed !== null || fleet.tiles.every((tile) => tile.end !== null);
  const last = Math.max(...[starts, complete, failed, leftOut].map((times) => times.at(-1) ?? 0));
  const from = starts[0];
  const until = Math.max(from + TABLE_STEPS, last, isOver ? (completed ?? 0) : now);
  const estimate = upgrade?.estimate;
  const expected = !isOver && estimate && estimate.p90 > until ? estimate : null;
  const isNear = expected && expected.p90 - until <= until - from;
  // The axis has at least a minute; what is drawn ends at `until`.
  const to = isNear ? expected.p90 : Math.max(from + 60, until);
  return { starts, complete, failed, leftOut, from, until, to, expected, isNear, total: fleet.tiles.length };
}

/** How many of the sorted times are not later than a time. */
function countUntil(times, limit) {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

const at = (from, to, step, steps) => from + ((to - from) * step) / steps;

function drawing(series, width) {
  const { starts, complete, failed, leftOut, from, until, to, expected, isNear, total } = series;
  const [left, right] = [MARGIN.left, width - MARGIN.right];
  const [top, bottom] = [MARGIN.top, HEIGHT - MARGIN.bottom];
  const x = (seconds) => left + ((right - left) * (seconds - from)) / (to - from);
  const y = (count) => bottom - ((bottom - top) * count) / total;
  const area = (count) => {
    let path = `M${left},${bottom}`;
    for (let step = 0; step <= STEPS; step += 1) {
      const seconds = at(from, until, step, STEPS);
      path += `L${x(seconds).toFixed(1)},${y(count(seconds)).toFixed(1)}`;
    }
    return `${path}L${x(until).toFixed(1)},${bottom}Z`;
  };
  const failures = (seconds) => countUntil(failed, seconds);
  const ends = (seconds) => failures(seconds) + countUntil(complete, seconds);
  const allEnds = (seconds) => ends(seconds) + countUntil(leftOut, seconds);
  const label =
    `${number(starts.length)} of ${number(total)} clusters have started, ${number(complete.length)} are complete and ` +
    `${number(failed.length)} failed${leftOut.length ? `, ${number(leftOut.length)} left out` : ""}, ` +
    `from ${time(from)} to ${time(until)}` +
    (expected ? `; expected to end ${expectation(expected)}` : "");
  const svg = shape("svg", { class: "timeline", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label });
  svg.append(
    shape("path", { class: "started Partial", d: area((seconds) => countUntil(starts, seconds)) }),
    ...(leftOut.length ? [shape("path", { class: "ended Aborted", d: area(allEnds) })] : []),
    shape("path", { class: "ended Complete", d: area(ends) }),
    shape("path", { class: "ended Failed", d: area(failures) }),
    shape("path", { class: "axis", d: `M${left},${top}V${bottom}H${right}` }),
    shape("text", { x: left - 6, y: top + 8, "text-anchor": "end" }, number(total)),
    shape("text", { x: left - 6, y: bottom, "text-anchor": "end" }, "0"),
  );
  for (let step = 0; step <= 4; step += 1) {
    const seconds = at(from, to, step, 4);
    const anchor = ["start", "middle", "middle", "middle", "end"][step];
    svg.append(shape("text", { x: x(seconds), y: HEIGHT - 6, "text-anchor": anchor }, time(seconds, to - from)));
  }
  if (isNear) {
    const early = x(Math.max(expected.p50, until));
    const width = Math.max(2, right - early);
    svg.append(
      shape("rect", { class: "expected", x: right - width, y: top, width, height: bottom - top }),
      shape("text", { x: right - 4, y: top + 10, "text-anchor": "end" }, "expected end"),
    );
  }
  return svg;
}

const expectation = ({ p50, p90 }) => `around ${time(p50)}, in nine of ten cases before ${time(p90)}`;

function key({ leftOut }) {
  const entries = [["Partial", "started"], ["Complete", "complete"], ["Failed", "failed"]];
  if (leftOut.length) entries.push(["Aborted", "left out"]);
  const spans = entries.map(([phase, label]) => element("span", {}, element("span", { class: `swatch ${phase}` }), label));
  return element("p", { class: "key", "aria-hidden": "true" }, ...spans);
}

function forecast({ expected }) {
  return expected ? [element("p", { class: "quiet" }, `Expected to end ${expectation(expected)}.`)] : [];
}

function rows(series) {
  const { starts, complete, failed, leftOut, from, until: end } = series;
  return Array.from({ length: TABLE_STEPS }, (_, step) => {
    const until = at(from, end, step + 1, TABLE_STEPS);
    const cells = [starts, complete, failed, leftOut].map((times) => element("td", {}, number(countUntil(times, until))));
    return element("tr", {}, element("th", { scope: "row" }, time(until, end - from)), ...cells);
  });
}
