// The stream of messages from the server, and requests to it. Each carries the token, in a header that only this page can send.

const LONGEST_PAUSE = 10000;

export class Connection {
  #token;
  #listener;
  #aborter;

  /** The listener has `message(name, data)` and `state(word)`, with the words live, lost and denied. */
  constructor(token, listener) {
    this.#token = token;
    this.#listener = listener;
  }

  request(path, options = {}) {
    return fetch(path, {
      ...options,
      credentials: "omit",
      headers: { ...options.headers, Authorization: `Bearer ${this.#token}` },
    });
  }

  /** Follows an upgrade `{namespace, name}`, or only the list of upgrades. A lost stream is opened again and begins anew. */
  async follow(upgrade) {
    this.#aborter?.abort();
    const aborter = new AbortController();
    this.#aborter = aborter;
    const query = upgrade ? `?${new URLSearchParams({ namespace: upgrade.namespace, name: upgrade.name })}` : "";
    for (let pause = 500; !aborter.signal.aborted; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      try {
        const response = await this.request(`/api/events${query}`, { signal: aborter.signal });
        if (response.status === 401) {
          this.#listener.state("denied");
          return;
        }
        if (response.ok) {
          this.#listener.state("live");
          pause = 250;
          await this.#read(response.body, aborter.signal);
        }
      } catch {
        // The stream was aborted, or the command was stopped.
      }
      if (aborter.signal.aborted) {
        return;
      }
      this.#listener.state("lost");
      await new Promise((resume) => setTimeout(resume, pause));
    }
  }

  async #read(body, signal) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let parts = [];
    for (let { value, done } = await reader.read(); !done; { value, done } = await reader.read()) {
      parts.push(value);
      // A message ends with an empty line, which may be divided between two parts.
      if (!value.includes("\n\n") && !value.startsWith("\n")) {
        continue;
      }
      const messages = parts.join("").split("\n\n");
      parts = [messages.pop()];
      // What is read of a stream after it was aborted is about an upgrade that is not shown any more.
      messages.forEach((message) => signal.aborted || this.#deliver(message));
    }
  }

  #deliver(message) {
    let [name, data] = ["", ""];
    for (const line of message.split("\n")) {
      if (line.startsWith("event:")) name = line.slice(6).trim();
      if (line.startsWith("data:")) data = line.slice(5).trim();
    }
    if (name) {
      this.#listener.message(name, JSON.parse(data));
    }
  }
}
