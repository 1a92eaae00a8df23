// Histograms, each as bars over a logarithmic scale. A histogram is a list of slots: the smallest
// value of each, the smallest of the next one, and the number of values in it.

// The scale that all histograms of a column share, so that they can be compared.
class Scale {
  constructor(histograms) {
    let low = Infinity, high = 0;
    for (const slots of histograms)
      for (let i = 0; i < slots.length; i += 3) {
        low = Math.min(low, slots[i]);
        high = Math.max(high, slots[i + 1]);
      }
    this.low = Math.max(low, 0.5);
    this.high = Math.max(high, this.low * 2);
  }
  // From 0 to 1.
  at(value) {
    return Math.log(Math.max(value, this.low) / this.low) / Math.log(this.high / this.low);
  }
  // Spreads the values of each slot evenly over the bins that it covers.
  bins(slots, number) {
    const bins = new Float64Array(number);
    for (let i = 0; i < slots.length; i += 3) {
      const from = this.at(slots[i]) * number;
      const to = Math.max(this.at(slots[i + 1]) * number, from + 1e-6);
      for (let bin = Math.floor(from); bin < Math.min(to, number); ++bin) {
        const part = Math.min(to, bin + 1) - Math.max(from, bin);
        bins[bin] += slots[i + 2] * part / (to - from);
      }
    }
    return bins;
  }
  // The powers of ten in it.
  ticks() {
    const ticks = [];
    for (let value = 10 ** Math.ceil(Math.log10(this.low)); value < this.high; value *= 10)
      ticks.push(value);
    return ticks;
  }
}

// Bars that have any value are at least a pixel high.
function bars(bins, width, height) {
  const most = Math.max(...bins), step = width / bins.length;
  let path = '';
  bins.forEach((value, i) => {
    if (value <= 0) return;
    const tall = Math.max(1, value / most * height);
    path += `M${(i * step).toFixed(1)} ${height}v${(-tall).toFixed(1)}` +
        `h${Math.max(step - 0.7, 0.7).toFixed(1)}V${height}z`;
  });
  return drawing('path', {d: path, class: 'bars'});
}

function smallHistogram(slots, scale) {
  const width = 140, height = 18;
  const svg = drawing('svg', {width, height, 'aria-hidden': 'true'});
  svg.append(drawing('path', {d: `M0 ${height + .5}h${width}`, class: 'axis'}),
             bars(scale.bins(slots, 35), width, height));
  return svg;
}

function largeHistogram(slots, scale, unit) {
  const width = 720, height = 130;
  const svg = drawing('svg', {
    viewBox: `0 0 ${width} ${height + 24}`, width, style: 'max-width:100%',
    role: 'img', 'aria-label': describeHistogram(slots, unit)
  });
  const bins = scale.bins(slots, 90);
  for (const tick of scale.ticks()) {
    const x = scale.at(tick) * width;
    const label = drawing('text', {x, y: height + 18, 'text-anchor': 'middle'});
    label.textContent = (unit === 'ns' ? duration(tick) : plain(tick)).replace(/\.0+ /, ' ');
    svg.append(drawing('path', {d: `M${x} 0v${height + 5}`, class: 'axis'}), label);
  }
  svg.append(bars(bins, width, height),
             drawing('path', {d: `M0 ${height + .5}h${width}`, class: 'axis'}));
  return svg;
}

function describeHistogram(slots, unit) {
  if (slots.length === 0) return 'no values';
  const text = (value) => unit === 'ns' ? duration(value) : plain(value);
  let most = 0;
  for (let i = 0; i < slots.length; i += 3) if (slots[i + 2] > slots[most + 2]) most = i;
  return `from ${text(slots[0])} to ${text(slots[slots.length - 2])}, ` +
      `most often ${text(slots[most])} to ${text(slots[most + 1])}`;
}
