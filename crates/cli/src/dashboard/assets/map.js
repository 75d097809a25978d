// The map of the fleet: a canvas with a tile per cluster. Of a change, only the tiles that changed are drawn again.
//
// For keyboards and screen readers the map is a grid, of which only the cell under the cursor is in the document.

import { CANARY, LEFT_SELECTION } from "./fleet.js";
import { byId, duration, element, now } from "./elements.js";

const LARGEST = 30;
const SMALLEST = 4;
/** Height that the map may take, in pixels; a fleet that needs more with the smallest tiles gets more. */
const HEIGHT = 460;

/** Black or white, whichever is easier to see on a colour such as `rgb(198, 204, 214)`. */
function markColor(color) {
  const [red, green, blue] = (color.match(/[\d.]+/g) ?? []).map(Number);
  return 0.3 * red + 0.59 * green + 0.11 * blue > 170 ? "black" : "white";
}

export class FleetMap {
  #fleet;
  #open;
  #frame = byId("map");
  #canvas = byId("canvas");
  #pen = this.#canvas.getContext("2d");
  #tip = byId("tip");
  #colors = [];
  #markColors = [];
  #dirty = new Set();
  #all = true;
  #scheduled = false;
  #cursor = 0;
  #isFocused = false;
  #size = LARGEST;
  #columns = 1;
  #matches = null;

  /** Calls `open(tile)` when a cluster is chosen. */
  constructor(fleet, open) {
    this.#fleet = fleet;
    this.#open = open;
    new ResizeObserver(() => this.layout()).observe(this.#frame);
    this.#frame.addEventListener("keydown", (event) => this.#key(event));
    this.#frame.addEventListener("focus", () => this.#focus(true));
    this.#frame.addEventListener("blur", () => this.#focus(false));
    this.#canvas.addEventListener("mousemove", (event) => this.#point(this.#at(event)));
    this.#canvas.addEventListener("mouseleave", () => this.#point(null));
    this.#canvas.addEventListener("click", (event) => {
      const tile = this.#at(event);
      if (tile) {
        this.#move(tile.index);
        this.#open(tile);
      }
    });
  }

  /** Tiles for which this is false are dimmed; null shows all. */
  filter(matches) {
    this.#matches = matches;
    this.#drawAll();
  }

  /** Draws these tiles again. */
  changed(tiles) {
    tiles.forEach((tile) => this.#dirty.add(tile));
    if (tiles.some((tile) => tile.index === this.#cursor)) {
      this.#describe();
    }
    this.#schedule();
  }

  /** Reads the colours of the phases again. */
  recolor(swatches) {
    this.#colors = swatches.map((swatch) => getComputedStyle(swatch).backgroundColor);
    this.#markColors = this.#colors.map(markColor);
    this.#drawAll();
  }

  /** Computes size and place of all tiles. */
  layout() {
    const width = this.#frame.clientWidth;
    const count = this.#fleet.tiles.length;
    if (!count) {
      this.#clear();
    }
    if (!width || !count) {
      return;
    }
    let size = Math.min(LARGEST, Math.max(SMALLEST, Math.floor(Math.sqrt((width * HEIGHT) / count))));
    while (size > SMALLEST && Math.ceil(count / Math.floor(width / size)) * size > HEIGHT) {
      size -= 1;
    }
    this.#size = size;
    this.#columns = Math.max(1, Math.floor(width / size));
    const rows = Math.ceil(count / this.#columns);
    const ratio = window.devicePixelRatio || 1;
    this.#canvas.width = Math.round(this.#columns * size * ratio);
    this.#canvas.height = Math.round(rows * size * ratio);
    this.#canvas.style.width = `${this.#columns * size}px`;
    this.#canvas.style.height = `${rows * size}px`;
    this.#pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#frame.setAttribute("aria-rowcount", rows);
    this.#frame.setAttribute("aria-colcount", this.#columns);
    this.#cursor = Math.min(this.#cursor, count - 1);
    this.#describe();
    this.#drawAll();
  }

  /** Leaves nothing of former clusters, neither for eyes nor for a screen reader. */
  #clear() {
    this.#cursor = 0;
    [this.#canvas.width, this.#canvas.height] = [0, 0];
    [this.#canvas.style.width, this.#canvas.style.height] = ["0", "0"];
    byId("cells").replaceChildren();
    byId("cells").removeAttribute("aria-rowindex");
    this.#frame.removeAttribute("aria-activedescendant");
    this.#frame.setAttribute("aria-rowcount", 0);
    this.#frame.setAttribute("aria-colcount", 0);
    this.#point(null);
    this.#drawAll();
  }

  #drawAll() {
    this.#all = true;
    this.#schedule();
  }

  #schedule() {
    if (!this.#scheduled) {
      this.#scheduled = true;
      requestAnimationFrame(() => this.#draw());
    }
  }

  #draw() {
    this.#scheduled = false;
    if (this.#all) {
      this.#pen.clearRect(0, 0, this.#canvas.width, this.#canvas.height);
    }
    (this.#all ? this.#fleet.tiles : this.#dirty).forEach((tile) => this.#drawTile(tile));
    this.#all = false;
    this.#dirty.clear();
    if (this.#fleet.tiles.length && !performance.getEntriesByName("fleet-painted").length) {
      performance.mark("fleet-painted");
    }
  }

  #drawTile(tile) {
    const [pen, size] = [this.#pen, this.#size];
    const x = (tile.index % this.#columns) * size;
    const y = Math.floor(tile.index / this.#columns) * size;
    const side = size - (size > 6 ? 2 : 1);
    pen.clearRect(x, y, size, size);
    pen.globalAlpha = this.#matches && !this.#matches(tile) ? 0.15 : 1;
    pen.fillStyle = this.#colors[tile.phase] ?? "gray";
    pen.fillRect(x, y, side, side);
    this.#drawMarks(tile, x, y, side);
    pen.globalAlpha = 1;
    if (this.#isFocused && tile.index === this.#cursor) {
      pen.strokeStyle = getComputedStyle(this.#frame).color;
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, side - 2, side - 2);
    }
  }

  /** Marks that do not depend on colours: a cross, a stroke, and a ring. */
  #drawMarks(tile, x, y, side) {
    const pen = this.#pen;
    const phase = this.#fleet.phaseOf(tile);
    pen.strokeStyle = this.#markColors[tile.phase] ?? "white";
    pen.lineWidth = Math.max(1, side / 12);
    pen.beginPath();
    const [a, b] = [side * 0.25, side * 0.75];
    if (phase === "Failed" || phase === "Blocked" || phase === "PreActionDegraded") {
      pen.moveTo(x + a, y + b);
      pen.lineTo(x + b, y + a);
    }
    if (phase === "Failed") {
      pen.moveTo(x + a, y + a);
      pen.lineTo(x + b, y + b);
    }
    if (tile.marks & CANARY) {
      pen.moveTo(x + side * 0.9, y + side / 2);
      pen.arc(x + side / 2, y + side / 2, side * 0.4, 0, 2 * Math.PI);
    }
    pen.stroke();
  }

  #at(event) {
    const column = Math.floor(event.offsetX / this.#size);
    const row = Math.floor(event.offsetY / this.#size);
    return column < this.#columns ? this.#fleet.tiles[row * this.#columns + column] : undefined;
  }

  #focus(isFocused) {
    this.#isFocused = isFocused;
    const tile = this.#fleet.tiles[this.#cursor];
    if (tile) {
      this.changed([tile]);
    }
    this.#point(isFocused ? tile : null);
  }

  #key(event) {
    const last = this.#fleet.tiles.length - 1;
    const page = this.#columns * 10;
    const targets = {
      ArrowLeft: this.#cursor - 1,
      ArrowRight: this.#cursor + 1,
      ArrowUp: this.#cursor - this.#columns,
      ArrowDown: this.#cursor + this.#columns,
      PageUp: Math.max(0, this.#cursor - page),
      PageDown: Math.min(last, this.#cursor + page),
      Home: event.ctrlKey ? 0 : this.#cursor - (this.#cursor % this.#columns),
      End: event.ctrlKey ? last : Math.min(last, this.#cursor - (this.#cursor % this.#columns) + this.#columns - 1),
    };
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      const tile = this.#fleet.tiles[this.#cursor];
      if (tile) this.#open(tile);
    } else if (event.key in targets) {
      event.preventDefault();
      const target = targets[event.key];
      if (target >= 0 && target <= last) {
        this.#move(target);
        this.#point(this.#fleet.tiles[target]);
      }
    }
  }

  #move(index) {
    const before = this.#fleet.tiles[this.#cursor];
    this.#cursor = index;
    this.changed([before, this.#fleet.tiles[index]].filter(Boolean));
  }

  /** Puts the cell under the cursor into the document. */
  #describe() {
    const tile = this.#fleet.tiles[this.#cursor];
    if (!tile) {
      return;
    }
    const [row, column] = [Math.floor(tile.index / this.#columns) + 1, (tile.index % this.#columns) + 1];
    const text = this.#text(tile);
    const cell = byId("cells").firstElementChild;
    if (cell && cell.id === `cell-${tile.index}`) {
      cell.textContent = text;
      return;
    }
    byId("cells").setAttribute("aria-rowindex", row);
    byId("cells").replaceChildren(
      element("span", { id: `cell-${tile.index}`, role: "gridcell", "aria-colindex": column }, text),
    );
    this.#frame.setAttribute("aria-activedescendant", `cell-${tile.index}`);
  }

  #text(tile) {
    const words = [tile.name, `${this.#fleet.phaseOf(tile)} for ${duration(now() - tile.since)}`];
    if (tile.reason) words.push(tile.reason);
    if (tile.marks & CANARY) words.push("canary");
    if (tile.marks & LEFT_SELECTION) words.push("no longer selected");
    return words.join(", ");
  }

  #point(tile) {
    this.#tip.hidden = !tile;
    if (!tile) {
      return;
    }
    this.#tip.textContent = this.#text(tile);
    const x = (tile.index % this.#columns) * this.#size;
    const y = (Math.floor(tile.index / this.#columns) + 1) * this.#size + 4;
    const most = this.#frame.clientWidth - this.#tip.offsetWidth;
    this.#tip.style.transform = `translate(${Math.max(0, Math.min(x, most))}px, ${y}px)`;
  }
}
