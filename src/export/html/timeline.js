// The calls and events of a recording, thread by thread, in time. Below a thread's name, a call is
// in the row after that of the call it lies in.

const MOST_LANES = 200;
const AXIS = 24;
const NEAREST_NS = 50;

// Returns the first place in [0, size) for which `isAfter` holds, or `size`. It must hold for all
// places after that one.
function firstOf(size, isAfter) {
  let low = 0, high = size;
  while (low < high) {
    const middle = low + high >> 1;
    if (isAfter(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

class Track {
  constructor(data) {
    this.title = data.process === data.name ? data.name : `${data.process} · ${data.name}`;
    this.functions = data.function;
    this.texts = data.text;
    this.durations = data.duration;
    this.unreturned = new Set(data.unreturned);
    this.starts = new Float64Array(data.start.length);
    for (let i = 0, time = 0; i < data.start.length; ++i) this.starts[i] = time += data.start[i];
    this.lanes = [];
    this.deeper = 0;
    this.layOut();
  }

  get size() { return this.starts.length; }
  endOf(i) { return this.starts[i] + Math.max(this.durations[i], 0); }

  // Each slice lies in those before it that have not ended. Times are rounded to nanoseconds.
  layOut() {
    const ends = [];
    for (let i = 0; i < this.size; ++i) {
      while (ends.length > 0 && ends[ends.length - 1] <= this.starts[i] + 1) ends.pop();
      if (ends.length < MOST_LANES) (this.lanes[ends.length] ??= []).push(i);
      else ++this.deeper;
      if (this.durations[i] >= 0) ends.push(this.endOf(i));
    }
  }
}

class TimelineView {
  constructor(data, names, objects) {
    Object.assign(this, {data, names, objects, title: 'Timeline'});
    this.length = Math.max(data.length, 1);
    this.tracks = data.tracks.map((track) => new Track(track));
    this.search = new Search('');
    this.from = 0;
    this.to = this.length;
    this.top = 0;
    let y = 0;
    for (const track of this.tracks) {
      track.y = y;
      y += ROW + track.lanes.length * ROW + 8;
    }
    this.fullHeight = y;
  }

  get size() { return this.data.kept; }

  show(view) {
    view.classList.add('chart');
    const bar = element('div', {className: 'bar'});
    const button = (text, label, action) => {
      const made = element('button', {type: 'button'}, text);
      made.setAttribute('aria-label', label);
      made.onclick = action;
      bar.append(made);
    };
    button('+', 'Zoom in', () => this.zoom(0.5));
    button('−', 'Zoom out', () => this.zoom(2));
    button('Show all', 'Show all', () => this.showRange(0, this.length));
    bar.append(element('span', {className: 'keys'},
        'wheel or w s zooms · drag or a d moves · arrow keys move · click tells all · n next match'));
    view.append(bar);
    for (const warning of this.warnings())
      view.append(element('p', {className: 'warning'}, warning));
    this.chart = new TimelineChart(view, this);
  }

  warnings() {
    const {all, kept, untold} = this.data;
    const warnings = [];
    if (kept < all)
      warnings.push(`The ${count(kept)} longest of ${count(all)} calls and events ` +
                    'are shown. The tables and graphs have all.');
    if (untold > 0)
      warnings.push(`What ${count(untold)} of them tell is left out: ` +
                    'it would be too much for a page.');
    const deeper = this.tracks.reduce((sum, track) => sum + track.deeper, 0);
    if (deeper > 0)
      warnings.push(`Not shown: ${plural(deeper, 'call')} in more than ${MOST_LANES} others.`);
    return warnings;
  }

  showRange(from, to) {
    const length = Math.min(Math.max(to - from, NEAREST_NS), this.length);
    this.from = Math.min(Math.max(from, 0), this.length - length);
    this.to = this.from + length;
    this.chart.update();
  }

  // The time that stays where it is: that of the chosen slice, if it is shown.
  middle() {
    if (this.chosen) {
      const {track, i} = this.chosen, time = (track.starts[i] + track.endOf(i)) / 2;
      if (time >= this.from && time <= this.to) return time;
    }
    return (this.from + this.to) / 2;
  }

  zoom(factor, at = this.middle()) {
    this.showRange(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  move(part) {
    const by = (this.to - this.from) * part;
    this.showRange(this.from + by, this.to + by);
  }

  scroll(by) {
    this.top = Math.max(Math.min(this.top + by, this.fullHeight + AXIS - this.chart.height), 0);
    this.chart.update();
  }

  nameOf(track, i) { return this.names[track.functions[i]]; }

  isFound(track, i) {
    return this.foundNames[track.functions[i]] || this.foundTexts[track.texts[i]];
  }

  setSearch(search) {
    this.search = search;
    this.foundNames = this.names.map((name) => search.matches(name));
    this.foundTexts = this.data.texts.map((text) => text !== '' && search.matches(text));
    this.chart?.update();
  }

  matched() {
    if (this.search.isEmpty) return '';
    let found = 0;
    for (const track of this.tracks)
      for (let i = 0; i < track.size; ++i) found += this.isFound(track, i) ? 1 : 0;
    return `${count(found)} of ${count(this.size)} match`;
  }

  describe({track, i}) {
    const name = this.nameOf(track, i);
    const told = this.data.texts[track.texts[i]];
    // What a call tells starts with its arguments, unless it is in the user's words.
    const text = told === '' || told.startsWith('(') || told.startsWith(' ') ? told : `: ${told}`;
    const figures = [track.durations[i] < 0 ? 'a moment' : duration(track.durations[i]) +
                         (track.unreturned.has(i) ? ', as far as is known' : ''),
                     `at ${this.timeText(track.starts[i])}`, track.title];
    const object = this.objects[track.functions[i]];
    if (object) figures.push(object);
    return {name, text, figures: figures.join(' · ')};
  }

  timeText(time) {
    return `${(time / 1e9).toFixed(9).replace(/(\.\d{3})(\d{3})(\d{3})$/, '$1\u2009$2\u2009$3')} s`;
  }

  choose(found) {
    this.chosen = found;
    this.chart.tell(this.describe(found));
    this.chart.update();
  }

  // Chooses the next slice that matches the search, in time.
  chooseNext() {
    let best;
    const after = this.chosen ? this.chosen.track.starts[this.chosen.i] : -1;
    const isWanted = (track, i) =>
        track.starts[i] > after && (this.search.isEmpty || this.isFound(track, i));
    for (const track of this.tracks)
      for (let i = 0; i < track.size; ++i)
        if (isWanted(track, i) && (!best || track.starts[i] < best.track.starts[best.i]))
          best = {track, i};
    if (!best) return;
    const middle = (best.track.starts[best.i] + best.track.endOf(best.i)) / 2;
    const half = Math.max((this.to - this.from) / 2, Math.max(best.track.durations[best.i], 0));
    this.choose(best);
    this.showRange(middle - half, middle + half);
  }
}

class TimelineChart extends Chart {
  constructor(view, timeline) {
    super(view, 'Timeline. Keys: w and s zoom, a and d move, n chooses the next match, ' +
                'of which the line below tells.');
    this.timeline = timeline;
    this.canvas.classList.add('movable');
    this.canvas.addEventListener('wheel', (event) => this.turn(event), {passive: false});
    this.canvas.addEventListener('pointerdown', (event) => this.grab(event));
    this.canvas.addEventListener('dblclick', () => this.zoomToPointed());
    window.addEventListener('resize', () => this.update());
  }

  wantedHeight() {
    const room = Math.max(window.innerHeight - 330, 240);
    return Math.min(this.timeline.fullHeight + AXIS, room);
  }

  get scale() { return this.width / (this.timeline.to - this.timeline.from); }
  timeAt(x) { return this.timeline.from + x / this.scale; }

  draw() {
    this.begin();
    const {timeline} = this;
    for (const track of timeline.tracks) {
      const y = track.y + AXIS - timeline.top;
      const height = (track.lanes.length + 1) * ROW;
      if (y > this.height || y + height < AXIS) continue;
      this.context.fillStyle = this.colors.faint;
      this.context.fillText(`${track.title}  ${count(track.size)}`, 4, y + ROW / 2);
      track.lanes.forEach((lane, depth) => this.drawLane(track, lane, y + (depth + 1) * ROW));
    }
    this.drawAxis();
  }

  // What is narrower than a pixel shares it with what follows: of these, the first one that matches
  // the search is drawn, or else the first.
  drawLane(track, lane, y) {
    if (y > this.height || y + ROW < 0) return;
    const {timeline, scale} = this, {from, to} = timeline;
    let at = firstOf(lane.length, (i) => track.endOf(lane[i]) >= from);
    while (at < lane.length && track.starts[lane[at]] <= to) {
      const widthOf = (i) => track.durations[i] < 0 ? 2 : track.durations[i] * scale;
      const x = (track.starts[lane[at]] - from) * scale;
      const nextPixel = from + (Math.floor(x) + 1) / scale;
      const next = widthOf(lane[at]) >= 1
          ? at + 1
          : Math.max(firstOf(lane.length, (k) => track.starts[lane[k]] >= nextPixel), at + 1);
      let shown = at;
      if (!timeline.search.isEmpty)
        while (shown < next && !timeline.isFound(track, lane[shown])) ++shown;
      const i = lane[shown < next ? shown : at];
      this.drawSlice(track, i, (track.starts[i] - from) * scale, y, widthOf(i));
      at = next;
    }
  }

  drawSlice(track, i, x, y, width) {
    const {timeline} = this;
    const name = timeline.nameOf(track, i);
    const isFaint = !timeline.search.isEmpty && !timeline.isFound(track, i);
    const isChosen = timeline.chosen?.track === track && timeline.chosen.i === i;
    const color = track.durations[i] < 0 ? this.colors.mark : this.colorOf(name, width < 3);
    this.context.globalAlpha = track.unreturned.has(i) ? 0.45 : 1;
    this.box(x, y, Math.max(width, 1), name, {color, isFaint, isChosen});
    this.context.globalAlpha = 1;
  }

  // Colors are computed once for each name. What is thin has a stronger one.
  colorOf(name, isThin) {
    if (this.coloredDark !== darkScheme.matches) this.known = [new Map(), new Map()];
    this.coloredDark = darkScheme.matches;
    const known = this.known[Number(isThin)];
    if (!known.has(name)) known.set(name, isThin ? strongColorOf(name) : colorOf(name));
    return known.get(name);
  }

  drawAxis() {
    const {context, timeline, scale} = this;
    context.fillStyle = this.colors.paper;
    context.fillRect(0, 0, this.width, AXIS);
    const least = 110 / scale;
    let step = 10 ** Math.floor(Math.log10(least));
    step *= [1, 2, 5, 10].find((factor) => step * factor >= least);
    const [unit, size] = [['s', 1e9], ['ms', 1e6], ['µs', 1e3], ['ns', 1]].find(
        (one) => timeline.length >= one[1]);
    const digits = Math.max(Math.ceil(Math.log10(size / step) - 1e-9), 0);
    context.strokeStyle = this.colors.line;
    context.lineWidth = 1;
    context.beginPath();
    for (let time = Math.ceil(timeline.from / step) * step; time <= timeline.to; time += step) {
      const x = Math.round((time - timeline.from) * scale) + 0.5;
      context.moveTo(x, AXIS - 8);
      context.lineTo(x, AXIS - 1);
      context.fillStyle = this.colors.faint;
      if (x + 90 < this.width)
        context.fillText(`${(time / size).toFixed(digits)} ${unit}`, x + 4, AXIS / 2 - 1);
    }
    context.moveTo(0, AXIS - 0.5);
    context.lineTo(this.width, AXIS - 0.5);
    context.stroke();
  }

  // A few pixels beside a slice are near enough.
  at(x, y) {
    const {timeline} = this;
    const place = y - AXIS + timeline.top;
    const track = timeline.tracks.findLast((one) => one.y <= place);
    const lane = track?.lanes[Math.floor((place - track.y) / ROW) - 1];
    if (y < AXIS || !lane) return undefined;
    const time = this.timeAt(x), near = 2 / this.scale;
    const at = firstOf(lane.length, (i) => track.endOf(lane[i]) >= time - near);
    if (at === lane.length || track.starts[lane[at]] > time + near) return undefined;
    return {track, i: lane[at]};
  }

  describe(found) { return this.timeline.describe(found); }

  turn(event) {
    event.preventDefault();
    showTip(undefined);
    const across = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
    if (Math.abs(across) > Math.abs(event.deltaY) || event.shiftKey)
      this.timeline.move(across / this.width);
    else
      this.timeline.zoom(Math.exp(Math.max(Math.min(event.deltaY, 200), -200) / 300),
                         this.timeAt(event.offsetX));
  }

  grab(event) {
    if (event.button !== 0) return;
    const {timeline, canvas} = this;
    const {from, to, top} = timeline;
    let isMoved = false;
    const move = ({clientX, clientY}) => {
      const x = clientX - event.clientX, y = clientY - event.clientY;
      isMoved = isMoved || Math.abs(x) + Math.abs(y) > 3;
      if (!isMoved) return;
      canvas.classList.add('moving');
      timeline.top = top;
      timeline.scroll(-y);
      timeline.showRange(from - x / this.width * (to - from), to - x / this.width * (to - from));
    };
    const release = () => {
      canvas.classList.remove('moving');
      canvas.removeEventListener('pointermove', move);
      const found = !isMoved && this.pointer && this.at(this.pointer.x, this.pointer.y);
      if (found) timeline.choose(found);
    };
    canvas.setPointerCapture(event.pointerId);
    canvas.addEventListener('pointermove', move);
    canvas.addEventListener('pointerup', release, {once: true});
  }

  zoomToPointed() {
    const found = this.pointer && this.at(this.pointer.x, this.pointer.y);
    if (!found || found.track.durations[found.i] < 0) return;
    const {track, i} = found, margin = track.durations[i] / 20;
    this.timeline.showRange(track.starts[i] - margin, track.endOf(i) + margin);
  }
}

// Keys work wherever the focus is, but in a field for text.
TimelineView.prototype.press = function(event) {
  const actions = {
    w: () => this.zoom(0.7), s: () => this.zoom(1 / 0.7),
    a: () => this.move(-0.2), d: () => this.move(0.2),
    ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2),
    ArrowUp: () => this.scroll(-2 * ROW), ArrowDown: () => this.scroll(2 * ROW),
    0: () => this.showRange(0, this.length), n: () => this.chooseNext()
  };
  if (!(event.key in actions)) return;
  actions[event.key]();
  event.preventDefault();
};
