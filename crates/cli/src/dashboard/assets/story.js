// The story of one cluster: what `kubectl mcu why` says.

import { button, byId, duration, element, now, phaseLabel, time } from "./elements.js";

const seconds = (text) => Date.parse(text) / 1000;

export class Story {
  #connection;
  #onClose;
  #shown = null;
  #request = 0;

  constructor(connection, onClose) {
    this.#connection = connection;
    this.#onClose = onClose;
    byId("story").addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
  }

  /** Shows a cluster of an upgrade and moves the focus there. */
  async open(upgrade, cluster) {
    this.#shown = { upgrade, cluster };
    await this.refresh();
    byId("story-title")?.focus();
  }

  close() {
    this.hide();
    this.#onClose();
  }

  /** Closes it without moving the focus. */
  hide() {
    this.#shown = null;
    byId("story").hidden = true;
    byId("story").replaceChildren();
  }

  shows(cluster) {
    return this.#shown?.cluster === cluster;
  }

  /** Reads the story again, because the cluster has changed. */
  async refresh() {
    if (!this.#shown) {
      return;
    }
    const { upgrade, cluster } = this.#shown;
    const request = ++this.#request;
    const query = new URLSearchParams({ namespace: upgrade.namespace, name: upgrade.name, cluster });
    const response = await this.#connection.request(`/api/story?${query}`).catch(() => null);
    const content = response?.ok ? this.#content(await response.json()) : [
      element("p", {}, response ? await response.text() : "The dashboard does not answer."),
    ];
    // A later request may have been answered first.
    if (request === this.#request && this.#shown) {
      const focused = byId("story").contains(document.activeElement) ? document.activeElement.id : "";
      const heading = element("div", { class: "heading" },
        element("h2", { id: "story-title", tabindex: "-1" }, cluster),
        button("Close", () => this.close(), { id: "story-close" }),
      );
      byId("story").replaceChildren(heading, ...content);
      byId("story").hidden = false;
      if (focused) byId(focused).focus();
    }
  }

  #content(story) {
    const facts = [["Phase", phaseLabel(story.phase)], ["For", duration(now() - seconds(story.since))]];
    const add = (name, value) => value && facts.push([name, value]);
    add("From", story.fromVersion);
    add("To", story.toVersion);
    add("Canary", story.canary && "yes");
    add("Selection", story.leftSelection && "no longer selected, will finish all its steps");
    add("Cause", story.reason);
    add("Message", story.message);
    add("Retried", story.retry);
    const list = element("dl", { class: "story" });
    facts.forEach(([name, value]) => list.append(element("dt", {}, name), element("dd", {}, value)));
    return [
      list,
      element("h3", {}, "Next step"),
      element("p", { class: "next" }, story.remedy),
      element("h3", {}, "History"),
      story.steps.length ? history(story) : element("p", { class: "quiet" }, "No step has started."),
    ];
  }
}

// What a step without an outcome is called where it does not run: as kubectl mcu why says.
const OPEN = { PreActionDegraded: "degraded", Failed: "Failed", Aborted: "withdrawn", Skipped: "ended" };

function history({ phase, since, steps }) {
  const until = phase !== "PreActionDegraded" && phase in OPEN ? seconds(since) : now();
  const head = ["Step", "Started", "Duration", "Outcome"].map((name) => element("th", { scope: "col" }, name));
  const rows = steps.map((step) => {
    const started = seconds(step.startedAt);
    const length = step.durationSeconds ?? until - started;
    return element("tr", {},
      element("th", { scope: "row" }, step.name),
      element("td", {}, time(started)),
      element("td", {}, duration(length)),
      element("td", {}, step.outcome ?? OPEN[phase] ?? "running"),
    );
  });
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}
