// A flame graph: each box is a path of calls, as wide as what it and the paths that go on from it
// have. The root is at the top. Path 0 is the root, which stands for all.

const MOST_ROWS = 300;

class CallTree {
  constructor({before, function: functions, own, count: counts}, names) {
    const size = before.length + 1;
    this.before = [0, ...before];
    this.functions = [-1, ...functions];
    this.own = Float64Array.from([0, ...own]);
    this.counts = Float64Array.from([0, ...counts]);
    this.total = this.own.slice();
    this.depth = new Uint32Array(size);
    this.inner = Array.from({length: size}, () => []);
    for (let i = size - 1; i > 0; --i) this.total[this.before[i]] += this.total[i];
    for (let i = 1; i < size; ++i) {
      this.depth[i] = this.depth[this.before[i]] + 1;
      this.inner[this.before[i]].push(i);
    }
    for (const paths of this.inner) paths.sort((a, b) => this.total[b] - this.total[a]);
    this.names = names;
  }

  get size() { return this.before.length - 1; }
  nameOf(path) { return path === 0 ? 'all' : this.names[this.functions[path]]; }
}

class FlameView {
  constructor(data, names, objects) {
    Object.assign(this, {data, objects, title: data.title, unit: data.unit});
    this.tree = new CallTree(data, names);
    this.search = new Search('');
    this.focus = 0;
    this.chosen = 0;
  }

  get size() { return this.tree.size; }

  show(view) {
    view.classList.add('chart');
    const reset = element('button', {type: 'button'}, 'Show all');
    reset.onclick = () => this.zoom(0);
    const keys = 'click zooms · arrow keys choose a box, Enter zooms, Esc shows all';
    view.append(element('div', {className: 'bar'}, reset,
                        element('span', {className: 'keys'}, keys)));
    if (this.data.note) view.append(element('p', {}, this.data.note));
    if (this.data.left_out > 0)
      view.append(element('p', {className: 'warning'},
                          `There are too many paths: ${plural(this.data.left_out, 'call')} of ` +
                          'further ones are counted in the paths they lie in.'));
    this.chart = new FlameChart(view, this);
    this.chart.tell(this.describe(0));
  }

  zoom(path) {
    this.focus = path;
    this.choose(path);
  }

  choose(path) {
    this.chosen = path;
    this.chart.tell(this.describe(path));
    this.chart.update();
  }

  describe(path) {
    const {tree, unit} = this;
    const share = percent(tree.total[path], tree.total[0]);
    const figures = [`${inUnit(tree.total[path], unit)} (${share})`];
    if (path !== 0) figures.push(`${inUnit(tree.own[path], unit)} of its own`);
    if (path !== 0 && tree.counts[path] > 0 && unit !== 'hits')
      figures.push(plural(tree.counts[path], 'call'));
    const object = this.objects[tree.functions[path]];
    if (object) figures.push(object);
    return {name: tree.nameOf(path), figures: figures.join(' · ')};
  }

  isFound(path) { return path !== 0 && this.search.matches(this.tree.nameOf(path)); }

  setSearch(search) {
    this.search = search;
    this.chart?.update();
  }

  // What lies in boxes that match, each part of it once.
  matched() {
    if (this.search.isEmpty) return '';
    const {tree} = this;
    const isWithin = new Uint8Array(tree.size + 1);
    let all = 0;
    for (let path = 1; path <= tree.size; ++path) {
      isWithin[path] = isWithin[tree.before[path]];
      if (isWithin[path] || !this.isFound(path)) continue;
      isWithin[path] = 1;
      all += tree.total[path];
    }
    return `${percent(all, tree.total[0])} in boxes that match`;
  }
}

class FlameChart extends Chart {
  constructor(view, flame) {
    super(view, `Flame graph: ${flame.title}. The line below tells of the chosen box.`);
    this.flame = flame;
    this.canvas.addEventListener('click', () => {
      const path = this.pointer && this.at(this.pointer.x, this.pointer.y);
      if (path !== undefined) flame.zoom(path);
    });
    this.canvas.addEventListener('keydown', (event) => this.press(event));
  }

  // The boxes of what has the focus, and those that lead to it.
  layOut(width) {
    const {tree, focus} = this.flame;
    const boxes = [];
    for (let path = focus; ; path = tree.before[path]) {
      boxes.push({path, x: 0, width});
      if (path === 0) break;
    }
    const scale = width / Math.max(tree.total[focus], 1e-9);
    const waiting = [{path: focus, x: 0}];
    const deepest = tree.depth[focus] + MOST_ROWS;
    while (waiting.length > 0) {
      const {path, x} = waiting.pop();
      let at = x;
      for (const inner of tree.inner[path]) {
        const wide = tree.total[inner] * scale;
        if (wide < 0.3 || tree.depth[inner] > deepest) break;
        boxes.push({path: inner, x: at, width: wide});
        waiting.push({path: inner, x: at});
        at += wide;
      }
    }
    return boxes;
  }

  wantedHeight() {
    this.boxes = this.layOut(this.canvas.clientWidth);
    const {tree} = this.flame;
    return (this.boxes.reduce((most, {path}) => Math.max(most, tree.depth[path]), 0) + 1) * ROW;
  }

  draw() {
    this.begin();
    const {flame} = this, {tree, search} = flame;
    for (const {path, x, width} of this.boxes) {
      const name = tree.nameOf(path);
      const isAbove = tree.depth[path] < tree.depth[flame.focus];
      this.box(x, tree.depth[path] * ROW, width, name, {
        color: path === 0 ? this.colors.line : colorOf(name),
        isFaint: isAbove || (!search.isEmpty && !flame.isFound(path)),
        isChosen: path === flame.chosen && path !== 0
      });
    }
  }

  at(x, y) {
    const depth = Math.floor(y / ROW);
    return this.boxes.find((box) => this.flame.tree.depth[box.path] === depth && x >= box.x &&
                                    x < box.x + box.width)?.path;
  }

  describe(path) { return this.flame.describe(path); }

  press(event) {
    const {flame} = this, {tree, chosen} = flame;
    const beside = tree.inner[tree.before[chosen]];
    const place = beside.indexOf(chosen);
    const next = {
      ArrowUp: tree.before[chosen],
      ArrowDown: tree.inner[chosen][0],
      ArrowLeft: beside[place - 1],
      ArrowRight: chosen === 0 ? undefined : beside[place + 1]
    };
    if (event.key === 'Enter') flame.zoom(chosen);
    else if (event.key === 'Escape') flame.zoom(0);
    else if (!(event.key in next)) return;
    else if (next[event.key] !== undefined) flame.choose(next[event.key]);
    event.preventDefault();
  }
}
