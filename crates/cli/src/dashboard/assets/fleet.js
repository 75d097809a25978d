// The clusters of the upgrade that is shown, in the order of their names.

export const CANARY = 1;
export const LEFT_SELECTION = 2;

const collator = new Intl.Collator("en", { numeric: true });

export class Fleet {
  phases = [];
  tiles = [];
  /** Clusters per phase. */
  counts = [];
  /** Whether all clusters of the upgrade were told. */
  isKnown = false;
  /** How many changes of clusters were told since the page was opened. */
  changes = 0;
  #byName = new Map();

  get(name) {
    return this.#byName.get(name);
  }

  count(phase) {
    return this.counts[this.phases.indexOf(phase)] ?? 0;
  }

  phaseOf(tile) {
    return this.phases[tile.phase] ?? "";
  }

  /** Forgets the clusters, because another upgrade is shown. */
  forget() {
    this.reset({ phases: [], tiles: [] });
    this.isKnown = false;
  }

  /** Takes all clusters. */
  reset({ phases, tiles }) {
    this.isKnown = true;
    this.phases = phases;
    this.counts = phases.map(() => 0);
    this.#byName = new Map();
    tiles.forEach((tile) => this.#put(tile));
    this.#sort();
  }

  /** Takes changes. Returns the tiles that changed, and whether tiles came or went. */
  apply({ tiles, gone }) {
    const size = this.#byName.size;
    const changed = tiles.map((tile) => this.#put(tile));
    let moved = this.#byName.size !== size;
    for (const name of gone) {
      const tile = this.#byName.get(name);
      if (tile) {
        this.counts[tile.phase] -= 1;
        this.#byName.delete(name);
        moved = true;
      }
    }
    this.changes += tiles.length;
    if (moved) {
      this.#sort();
    }
    return { changed, moved };
  }

  #put([name, phase, marks, reason, since, start, end, subject = ""]) {
    let tile = this.#byName.get(name);
    if (tile) {
      this.counts[tile.phase] -= 1;
    } else {
      tile = { name, index: 0 };
      this.#byName.set(name, tile);
    }
    Object.assign(tile, { phase, marks, reason, since, start, end, subject });
    this.counts[phase] += 1;
    return tile;
  }

  #sort() {
    this.tiles = [...this.#byName.values()].sort((a, b) => collator.compare(a.name, b.name));
    this.tiles.forEach((tile, index) => (tile.index = index));
  }
}
