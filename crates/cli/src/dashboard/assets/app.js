// The page: connects the stream of messages with the map, the timeline, the causes, the table and the story.
//
// A message that is unknown is ignored, so a newer server may say more.

import { Actions } from "./actions.js";
import { forgetCauses, isSame, showCauses } from "./causes.js";
import { Connection } from "./connection.js";
import { button, byId, duration, element, now, number, phaseLabel, plural, replace, setText, time } from "./elements.js";
import { CANARY, Fleet } from "./fleet.js";
import { FleetMap } from "./map.js";
import { Story } from "./story.js";
import { drawTimeline } from "./timeline.js";

const ROWS = 50;
const ANNOUNCE_EVERY = 5000;
const REDRAW_EVERY = 500;

const fleet = new Fleet();
const filter = { text: "", phases: new Set(), cause: null };
let hello = { allowActions: false };
let upgrade = null;
/** Null until they are known. */
let causes = null;
let rows = ROWS;
let wanted = chosenUpgrade();

const connection = new Connection(token(), {
  state: showConnection,
  message: (name, data) => handlers[name]?.(data),
});
const map = new FleetMap(fleet, (tile) => story.open(upgrade, tile.name));
const story = new Story(connection, () => byId("map").focus());
const actions = new Actions(connection, (text, isError) => (isError ? showTrouble(text) : say(text)));

/** What is drawn from all clusters is drawn at most twice a second, and not at all while nothing changes. */
const redraw = throttled(REDRAW_EVERY, draw);
const announce = throttled(ANNOUNCE_EVERY, () => {
  if (!upgrade || !fleet.isKnown) return;
  const parts = [`${number(fleet.count("Complete"))} of ${plural(fleet.tiles.length, "cluster")} complete`];
  for (const phase of ["Failed", "PreActionDegraded", "Blocked"]) {
    if (fleet.count(phase)) parts.push(`${number(fleet.count(phase))} ${phase}`);
  }
  say(`${upgrade.name}: ${parts.join(", ")}`);
});

const handlers = {
  hello(data) {
    hello = data;
    byId("scope").textContent = data.scope;
  },
  upgrades: showUpgrades,
  upgrade(data) {
    // An upgrade that was deleted and created again is another one.
    if (upgrade && data?.uid !== upgrade.uid) forget();
    upgrade = data;
    byId("main").hidden = !data;
    showEmpty(data ? "" : "This upgrade does not exist any more.");
    if (data) showSummary();
    else document.title = "Fleet upgrades";
    redraw();
  },
  fleet(data) {
    fleet.reset(data);
    showLegend();
    map.recolor([...byId("legend").querySelectorAll(".swatch")]);
    map.layout();
    afterChange();
  },
  changes(data) {
    const { changed, moved } = fleet.apply(data);
    if (moved) map.layout();
    else map.changed(changed);
    if (changed.some((tile) => story.shows(tile.name))) story.refresh();
    afterChange();
  },
  causes(data) {
    causes = data;
    redrawCauses();
    if (upgrade) showSummary();
  },
  trouble: showTrouble,
  current(data) {
    isCurrent = data;
    showConnection("live");
  },
};

function draw() {
  drawTimeline(fleet, now(), upgrade);
  showProgress();
  showTable();
}

function afterChange() {
  // Tests and measurements read how far the page has come.
  document.documentElement.dataset.changes = fleet.changes;
  fleet.phases.forEach((phase, index) => {
    const count = byId("legend").children[index]?.querySelector("b");
    if (count) count.textContent = number(fleet.counts[index]);
  });
  redraw();
  announce();
}

/** Whether the command itself follows the hub. A page that follows a command that does not is not live. */
let isCurrent = true;
function showConnection(word) {
  const texts = { live: "Live", old: "Out of date, trying again", lost: "Connection lost, trying again", denied: "Not allowed" };
  const shown = word === "live" && !isCurrent ? "old" : word;
  byId("connection").dataset.live = shown === "live";
  setText(byId("connection"), texts[shown]);
  if (word === "denied") {
    byId("main").hidden = true;
    showEmpty("This address lacks the token of the running dashboard. Open the address that kubectl mcu dashboard printed.");
  }
}

function showTrouble(text) {
  byId("trouble").hidden = !text;
  byId("trouble").textContent = text;
}

function showEmpty(text) {
  byId("empty").hidden = !text;
  byId("empty").textContent = text;
}

function say(text) {
  byId("announcer").textContent = text;
}

const keyOf = ({ namespace, name }) => `${namespace}/${name}`;

function showUpgrades({ upgrades, more }) {
  const select = byId("upgrade");
  // An open list would close if its options were others whenever a cluster is done.
  replace(select, JSON.stringify([upgrades.map(keyOf), more]), () => {
    const options = upgrades.map((one) => element("option", { value: keyOf(one) }));
    if (more) options.push(element("option", { disabled: "" }, `${plural(more, "more upgrade")}`));
    return options;
  });
  upgrades.forEach((one, index) =>
    setText(select.options[index], `${keyOf(one)}: ${one.state}, ${number(one.complete)}/${number(one.total)}`),
  );
  const first = () => upgrades.find((one) => one.runs) ?? upgrades[0];
  // An upgrade that is gone is not replaced by another one, to which the buttons would then belong.
  const chosen = wanted ? upgrades.find((one) => keyOf(one) === wanted) : first();
  if (chosen) {
    if (select.value !== keyOf(chosen)) select.value = keyOf(chosen);
    if (keyOf(chosen) !== wanted || !upgrade) choose(keyOf(chosen));
  } else if (upgrades.length) {
    // With none selected, each can be chosen, also the only one.
    select.selectedIndex = -1;
  } else if (!wanted) {
    // One that was shown and is gone is told to be gone, also when there are others again.
    showEmpty("There are no upgrades here.");
  }
}

let followed = null;
function choose(key) {
  wanted = key;
  if (followed === key) return;
  followed = key;
  history.replaceState(null, "", `#upgrade=${encodeURIComponent(key)}`);
  const [namespace, name] = key.split("/");
  upgrade = null;
  forget();
  byId("main").hidden = true;
  showEmpty(`Waiting for ${key}.`);
  document.title = name;
  connection.follow({ namespace, name });
}

/** Leaves nothing of an upgrade, so that its clusters never stand under the name of the next one. */
function forget() {
  filter.phases.clear();
  filter.cause = null;
  causes = null;
  fleet.forget();
  story.hide();
  say("");
  showLegend();
  map.layout();
  applyFilter();
  draw();
}

function showSummary() {
  document.title = `${upgrade.name}: ${upgrade.state}`;
  byId("title").textContent = keyOf(upgrade);
  byId("state").textContent = upgrade.state;
  byId("state").dataset.tone = upgrade.tone;
  byId("target").textContent = `to ${upgrade.target}${upgrade.channel ? `, channel ${upgrade.channel}` : ""}`;
  replace(byId("notes"), JSON.stringify(upgrade.notes), () => upgrade.notes.map((note) => element("li", {}, note)));
  if (hello.allowActions) actions.show(upgrade, causes?.retryable ?? 0);
  showProgress();
}

function showProgress() {
  if (!upgrade) return;
  const order = ["Complete", "PostAction", "Soaking", "Operators", "Workers", "Partial", "Initialized", "PreAction", "PreActionDegraded", "Failed", "Blocked", "Pending", "Skipped", "Aborted"];
  const bar = byId("progress");
  const shown = order.filter((phase) => fleet.count(phase));
  const counts = shown.map((phase) => `${number(fleet.count(phase))} ${phase}`).join(", ");
  bar.setAttribute("aria-label", counts || (fleet.isKnown ? "no clusters" : "not known yet"));
  bar.replaceChildren(
    ...shown.map((phase) => {
      const part = element("span", { class: phase });
      part.style.flexGrow = fleet.count(phase);
      return part;
    }),
  );
  const facts = [];
  const total = fleet.tiles.length;
  if (fleet.isKnown) {
    const percent = total ? ` (${Math.floor((100 * fleet.count("Complete")) / total)}%)` : "";
    facts.push(["Complete", `${number(fleet.count("Complete"))} of ${number(total)}${percent}`]);
  }
  if (upgrade.canaries?.total) facts.push(["Canaries", `${upgrade.canaries.complete} of ${upgrade.canaries.total}`]);
  facts.push(["Slots in use", `${number(upgrade.inFlight)} of ${upgrade.slots === null ? "?" : number(upgrade.slots)}`]);
  if (fleet.isKnown) {
    facts.push(["Failed", number(fleet.count("Failed"))], ["Pending", number(fleet.count("Pending"))]);
    const leftOut = ["Skipped", "Aborted"].filter((phase) => fleet.count(phase));
    facts.push(...leftOut.map((phase) => [phase, number(fleet.count(phase))]));
  }
  const [started, completed] = [upgrade.started, upgrade.completed].map((time) => time && Date.parse(time) / 1000);
  if (started && completed) facts.push(["Took", duration(completed - started)]);
  else if (started) facts.push(["Started", `${duration(now() - started)} ago`]);
  else if (upgrade.created) facts.push(["Age", duration(now() - Date.parse(upgrade.created) / 1000)]);
  const { estimate, maintenance, preflight } = upgrade;
  if (estimate) facts.push(["Expected end", expectedEnd(estimate)]);
  if (maintenance) {
    const opens = maintenance.opens === null ? "" : `, the next opens ${until(maintenance.opens)}`;
    facts.push(["Waiting for windows", `${number(maintenance.waiting)}${opens}`]);
  }
  for (const { name, state, approver } of upgrade.approvals ?? []) {
    const told = { Approved: `approved by ${approver}`, Waiting: "waiting for an approval" };
    facts.push([`Checkpoint ${name}`, told[state] ?? "ahead"]);
  }
  if (preflight) {
    const answers = ["ready", "blocked", "unknown", "unsupported"].map((answer) => `${number(preflight[answer])} ${answer}`);
    facts.push(["Preflight", answers.join(", ")]);
  }
  replace(byId("facts"), JSON.stringify(facts), () =>
    facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}

/** When the upgrade ends, in words. Nothing estimates again while no cluster moves, so the end may have passed. */
const expectedEnd = ({ p50, p90 }) =>
  p90 > now() ? `${until(p50)}, in 9 of 10 cases ${until(p90)}` : `any time now; it was expected before ${time(p90)}`;

/** How far away a time is, in words. */
const until = (seconds) => (seconds > now() ? `within ${duration(seconds - now())}` : "any time now");

function showLegend() {
  const buttons = fleet.phases.map((phase) => {
    const made = button("", () => {
      const isOn = !filter.phases.delete(phase) && filter.phases.add(phase);
      made.setAttribute("aria-pressed", Boolean(isOn));
      applyFilter();
    }, { "aria-pressed": filter.phases.has(phase) });
    made.append(phaseLabel(phase), element("b", {}, "0"));
    return made;
  });
  byId("legend").replaceChildren(...buttons);
}

function redrawCauses() {
  if (!causes) {
    forgetCauses();
    return;
  }
  showCauses(causes, filter.cause, (cause) => {
    filter.cause = isSame(cause, filter.cause) ? null : cause;
    applyFilter();
  });
}

function matches(tile) {
  const phase = fleet.phaseOf(tile);
  const { text, phases, cause } = filter;
  if (phases.size && !phases.has(phase)) return false;
  if (cause && !isSame(cause, { phase, reason: tile.reason, subject: tile.subject })) return false;
  return !text || tile.name.includes(text) || tile.reason.toLowerCase().includes(text);
}

const isFiltered = () => Boolean(filter.text || filter.phases.size || filter.cause);

function applyFilter() {
  rows = ROWS;
  map.filter(isFiltered() ? matches : null);
  byId("clear").hidden = !isFiltered();
  redrawCauses();
  showTable();
}

function showTable() {
  const found = isFiltered() ? fleet.tiles.filter(matches) : fleet.tiles;
  byId("found").textContent = isFiltered() ? `${plural(found.length, "cluster")} found` : "";
  if (!byId("clusters").open) return;
  byId("more").hidden = found.length <= rows;
  // The button of a row keeps the focus while the rest of its row changes.
  const focused = document.activeElement?.dataset.cluster;
  byId("cluster-rows").replaceChildren(...found.slice(0, rows).map(row));
  if (focused) byId("cluster-rows").querySelector(`[data-cluster="${CSS.escape(focused)}"]`)?.focus();
}

function row(tile) {
  const open = button(tile.name, () => story.open(upgrade, tile.name), { "data-cluster": tile.name });
  const name = element("td", {}, open, tile.marks & CANARY ? " (canary)" : "");
  const cells = [phaseLabel(fleet.phaseOf(tile)), duration(now() - tile.since), tile.reason];
  return element("tr", {}, name, ...cells.map((cell) => element("td", {}, cell)));
}

/** Calls at once, and then at most once per so many milliseconds. */
function throttled(pause, call) {
  let [isWaiting, isAgain] = [false, false];
  const run = () => {
    call();
    isWaiting = true;
    setTimeout(() => {
      isWaiting = false;
      if (isAgain) {
        isAgain = false;
        run();
      }
    }, pause);
  };
  return () => (isWaiting ? (isAgain = true) : run());
}

/**
 * The token of the address. It is moved to the storage of the tab, so that it is not on the screen. The browser may have put the
 * address into its history already; the token is worth nothing when the command has ended.
 */
function token() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has("token")) {
    sessionStorage.setItem("token", given.get("token"));
    given.delete("token");
    history.replaceState(null, "", given.size ? `#${given}` : location.pathname);
  }
  return sessionStorage.getItem("token") ?? "";
}

function chosenUpgrade() {
  return new URLSearchParams(location.hash.slice(1)).get("upgrade");
}

function applyTheme() {
  const theme = localStorage.getItem("theme") ?? "system";
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId("theme").textContent = `Theme: ${theme}`;
  map.recolor([...byId("legend").querySelectorAll(".swatch")]);
}

byId("upgrade").addEventListener("change", (event) => choose(event.target.value));
byId("find").addEventListener("input", (event) => {
  filter.text = event.target.value.trim().toLowerCase();
  applyFilter();
});
byId("clear").addEventListener("click", () => {
  Object.assign(filter, { text: "", cause: null });
  filter.phases.clear();
  byId("find").value = "";
  [...byId("legend").children].forEach((made) => made.setAttribute("aria-pressed", false));
  applyFilter();
  byId("find").focus();
});
byId("more").addEventListener("click", () => {
  rows += 4 * ROWS;
  showTable();
});
byId("clusters").addEventListener("toggle", showTable);
byId("theme").addEventListener("click", () => {
  const themes = ["system", "light", "dark"];
  const next = themes[(themes.indexOf(localStorage.getItem("theme") ?? "system") + 1) % themes.length];
  localStorage.setItem("theme", next);
  applyTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
addEventListener("hashchange", () => location.hash.includes("token=") && location.reload());

applyTheme();
if (wanted) choose(wanted);
else connection.follow(null);
