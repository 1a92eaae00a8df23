// What drawings on a canvas have in common: sharp lines at any density of pixels, names in boxes, a
// tip beside the pointer, and a line below that says the same for those who use the keyboard.

const ROW = 20;
const FONT = 12;

class Chart {
  constructor(view, label) {
    this.canvas = element('canvas', {tabIndex: 0});
    this.canvas.setAttribute('role', 'application');
    this.canvas.setAttribute('aria-label', label);
    this.status = element('div', {className: 'status'});
    this.status.setAttribute('role', 'status');
    this.status.setAttribute('aria-live', 'polite');
    view.append(this.canvas, this.status);
    this.context = this.canvas.getContext('2d');
    this.width = 0;
    this.height = 0;
    new ResizeObserver(() => this.update()).observe(view);
    darkScheme.addEventListener('change', () => this.update());
    this.canvas.addEventListener('pointermove', (event) => this.hover(event));
    this.canvas.addEventListener('pointerleave', () => this.leave());
  }

  // Draws soon, and once for all that asks for it until then.
  update() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.resize();
      if (this.width > 0) this.draw();
    });
  }

  resize() {
    const width = this.canvas.clientWidth, height = this.wantedHeight();
    const density = window.devicePixelRatio || 1;
    if (width === this.width && height === this.height && density === this.density) return;
    Object.assign(this, {width, height, density});
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(height * density);
    this.context.setTransform(density, 0, 0, density, 0, 0);
  }

  begin() {
    this.colors = Object.fromEntries(
        ['paper', 'ink', 'faint', 'line', 'shade', 'mark', 'accent']
            .map((name) => [name, themeColor(name)]));
    this.context.font = `${FONT}px ${themeColor('mono')}`;
    this.context.textBaseline = 'middle';
    this.letter = this.context.measureText('0').width;
    this.context.clearRect(0, 0, this.width, this.height);
  }

  // `look`: its color; whether it is faint, as the search does not mean it; whether it is chosen.
  box(x, y, width, name, look) {
    const context = this.context;
    const left = Math.max(x, -1), right = Math.min(x + width, this.width + 1);
    const shown = Math.max(right - left - (width > 3 ? 1 : 0), 0.6);
    context.fillStyle = look.isFaint ? this.colors.shade : look.color;
    context.fillRect(left, y, shown, ROW - 1);
    if (look.isChosen) {
      context.strokeStyle = this.colors.accent;
      context.lineWidth = 2;
      context.strokeRect(left + 1, y + 1, Math.max(shown - 2, 1), ROW - 3);
    }
    const letters = Math.floor((shown - 8) / this.letter);
    if (letters < 3) return;
    context.fillStyle = look.isFaint ? this.colors.faint : this.colors.ink;
    const text = name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
    context.fillText(text, left + 4, y + ROW / 2, shown - 8);
  }

  // Tells of what is under the pointer, or chosen: its name, its own text, and its figures.
  tell(lines) {
    this.status.replaceChildren(...linesOf(lines));
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect();
    this.pointer = {x: event.clientX - box.left, y: event.clientY - box.top};
    const found = event.buttons === 0 ? this.at(this.pointer.x, this.pointer.y) : undefined;
    showTip(found === undefined ? undefined : this.describe(found), event.clientX, event.clientY);
  }

  leave() {
    this.pointer = undefined;
    showTip(undefined);
  }
}

function linesOf({name, text, figures}) {
  return [element('span', {}, name + (text ?? '')), '\n',
          element('span', {className: 'figures'}, figures)];
}

const tip = document.getElementById('tip');

function showTip(lines, x, y) {
  tip.hidden = lines === undefined;
  if (lines === undefined) return;
  tip.replaceChildren(...linesOf(lines));
  const box = tip.getBoundingClientRect();
  const isRight = x + 14 + box.width > window.innerWidth;
  const isLow = y + 18 + box.height > window.innerHeight;
  tip.style.left = `${Math.max(isRight ? x - 10 - box.width : x + 14, 4)}px`;
  tip.style.top = `${Math.max(isLow ? y - 10 - box.height : y + 18, 4)}px`;
}
