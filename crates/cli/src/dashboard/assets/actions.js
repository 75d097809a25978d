// Pause, resume and retry, each after a question. Only a dashboard that was started with --allow-actions shows them.

import { button, byId, element, plural, replace } from "./elements.js";

export class Actions {
  #connection;
  #say;
  /** What the page shows: the upgrade, and how many of its clusters can be retried. */
  #upgrade;
  #retryable;

  /** Calls `say(text)` with the result. */
  constructor(connection, say) {
    this.#connection = connection;
    this.#say = say;
  }

  /** Shows what can be done with an upgrade of which so many clusters can be retried. */
  show(upgrade, retryable) {
    this.#upgrade = upgrade;
    this.#retryable = retryable;
    const isStopped = upgrade.paused || upgrade.restored;
    const target = byId("actions");
    target.hidden = false;
    // The numbers are told when a button is pressed, so buttons stay while clusters start and end.
    replace(target, JSON.stringify([upgrade.uid, isStopped, retryable > 0]), () => {
      const pause = ["Pause", "pause", () => `${plural(this.#upgrade.inFlight, "cluster")} in flight will finish all steps. No other cluster will start.`];
      const resume = ["Resume", "resume", () => "Pending clusters will start as slots become free."];
      const retry = ["Retry", "retry", () => `${plural(this.#retryable, "cluster")} will be retried.`];
      return [isStopped ? resume : pause, ...(retryable ? [retry] : [])].map(([label, action, effect]) =>
        button(label, () => this.#ask(upgrade, label, action, effect()), { "data-key": action }),
      );
    });
  }

  #ask(upgrade, label, action, effect) {
    const dialog = byId("confirmation");
    const cancel = button("Cancel", () => dialog.close());
    const confirm = button(label, () => {
      dialog.close();
      this.#perform(upgrade, label, action);
    }, { class: "primary" });
    dialog.replaceChildren(
      element("h2", { id: "question" }, `${label} ${upgrade.namespace}/${upgrade.name}?`),
      element("p", {}, effect),
      element("div", { class: "buttons" }, cancel, confirm),
    );
    dialog.showModal();
    cancel.focus();
  }

  async #perform({ namespace, name, uid }, label, action) {
    const response = await this.#connection
      .request("/api/actions", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ action, namespace, name, uid }),
      })
      .catch(() => null);
    if (response?.ok) {
      this.#say(`${label} of ${name} was requested.`);
    } else {
      const why = response ? await response.text() : "The dashboard does not answer.";
      this.#say(`${label} of ${name} failed: ${why}`, true);
    }
  }
}
