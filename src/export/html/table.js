// A table whose rows can be sorted and searched. Rows become elements a few hundred at a time, as
// the page is scrolled: there may be any number of them.

const ROWS_AT_ONCE = 200;
const HISTOGRAMS = {durations: 'ns', values: ''};

function digitsAndUnit([digits, unit]) {
  return [digits, element('span', {className: 'unit'}, unit)];
}

// Returns what a cell of each kind shows.
const FIGURES = {
  count: (value) => [count(value)],
  lost: (value) => [count(value)],
  number: (value) => digitsAndUnit(plainParts(value)),
  rate: (value) => digitsAndUnit(scaled(value, MAGNITUDES, 1000)),
  duration: (value) => digitsAndUnit(scaled(value, DURATIONS, 1000)),
};

class TableView {
  constructor(data) {
    this.data = data;
    this.title = data.title;
    this.rows = data.rows;
    this.columns = data.columns.map((column, at) => ({...column, at})).filter((column) =>
        this.isShown(column));
    for (const column of this.columns) this.prepare(column);
    this.search = new Search('');
    this.sorted = this.columns.find((column) => column.sorts) ?? this.columns[0];
    this.descends = true;
  }

  get size() { return this.rows.length; }

  isShown({kind, at}) {
    if (kind === 'lost') return this.rows.some((row) => row[at] > 0);
    if (kind === 'text') return this.rows.some((row) => row[at] !== this.rows[0][at]);
    return true;
  }

  prepare(column) {
    if (column.kind in HISTOGRAMS) column.scale = new Scale(this.rows.map((row) => row[column.at]));
    if (column.kind in FIGURES)
      column.most = this.rows.reduce((most, row) => Math.max(most, row[column.at] ?? 0), 0);
  }

  // Makes the elements. To be called once.
  show(view) {
    this.head = element('tr');
    for (const column of this.columns) this.head.append(this.headOf(column));
    this.out = element('tbody');
    this.more = element('button', {className: 'more', type: 'button', hidden: true});
    this.more.onclick = () => this.showMore();
    this.nothing = element('p', {className: 'nothing', hidden: true}, 'No row matches.');
    const table = element('table', {}, element('thead', {}, this.head), this.out);
    table.setAttribute('aria-label', this.title);
    if (this.data.left_out > 0)
      view.append(element('p', {className: 'warning'},
                          `The first ${plural(this.size, 'row')} are here. ` +
                          `${plural(this.data.left_out, 'other')} would be too much for a page.`));
    view.append(element('div', {className: 'table'}, table), this.nothing, this.more);
    new IntersectionObserver((seen) => {
      if (seen.some((one) => one.isIntersecting)) this.showMore();
    }, {rootMargin: '400px'}).observe(this.more);
    this.arrange();
  }

  headOf(column) {
    const look = column.kind in FIGURES ? 'figure' : column.kind === 'stack' ? 'stack' : 'name';
    const head = element('th', {scope: 'col', className: look});
    if (column.kind in HISTOGRAMS) {
      head.className = 'histogram';
      const text = (value) => column.kind === 'durations' ? duration(value) : plain(value);
      head.append(element('span', {className: 'plain'}, element('span', {className: 'range'},
          element('span', {}, text(Math.floor(column.scale.low))),
          element('span', {className: 'visually-hidden'}, `to (${column.name})`),
          element('span', {}, text(column.scale.high)))));
      return head;
    }
    const button = element('button', {type: 'button'}, column.name);
    button.onclick = () => this.sortBy(column);
    head.append(button);
    return head;
  }

  sortBy(column) {
    this.descends = this.sorted === column ? !this.descends : column.kind in FIGURES;
    this.sorted = column;
    this.arrange();
  }

  setSearch(search) {
    this.search = search;
    if (this.out) this.arrange();
  }

  isFound(row) {
    const texts = this.columns.filter(({kind}) => ['function', 'text', 'stack'].includes(kind));
    return this.search.matches(texts.map(({at}) => row[at]).join(' '));
  }

  // What is not known comes last.
  compare(a, b) {
    const {at, kind} = this.sorted;
    if (a[at] === null || b[at] === null) return (a[at] === null) - (b[at] === null);
    const order = kind in FIGURES ? a[at] - b[at] : a[at] < b[at] ? -1 : a[at] > b[at] ? 1 : 0;
    return this.descends ? -order : order;
  }

  arrange() {
    this.found = this.rows.filter((row) => this.search.isEmpty || this.isFound(row));
    this.found.sort((a, b) => this.compare(a, b));
    [...this.head.children].forEach((head, i) => {
      head.removeAttribute('aria-sort');
      if (this.columns[i] === this.sorted)
        head.setAttribute('aria-sort', this.descends ? 'descending' : 'ascending');
    });
    this.out.replaceChildren();
    this.shown = 0;
    this.nothing.hidden = this.found.length !== 0;
    this.showMore();
  }

  showMore() {
    const next = this.found.slice(this.shown, this.shown + ROWS_AT_ONCE);
    this.shown += next.length;
    this.out.append(...next.map((row) => this.rowOf(row)));
    const left = this.found.length - this.shown;
    this.more.hidden = left === 0;
    this.more.textContent = `Show more of ${plural(left, 'other row')}`;
  }

  rowOf(row) {
    const made = element('tr');
    for (const column of this.columns) made.append(this.elementOf(column, row[column.at], made, row));
    return made;
  }

  elementOf(column, value, row, values) {
    if (column.kind in HISTOGRAMS) return this.histogramElement(column, value, row, values);
    if (column.kind in FIGURES) return this.figureElement(column, value);
    const cell = element('td', {className: column.kind === 'function' ? 'name' : column.kind});
    cell.title = value;
    if (column.kind === 'function') {
      const swatch = element('span', {className: 'swatch'});
      swatch.style.background = strongColorOf(value);
      cell.append(swatch);
    }
    cell.append(column.kind === 'stack' ? value.split(';').reverse().join(' ← ') : value);
    return cell;
  }

  figureElement(column, value) {
    const cell = element('td', {className: 'figure'});
    if (value === null) {
      cell.append(element('span', {className: 'none'}, '–'));
      return cell;
    }
    cell.dataset.value = value;
    cell.append(...FIGURES[column.kind](value));
    if (column.kind === 'lost' && value > 0) cell.classList.add('lost');
    if (column === this.sorted && column.most > 0) {
      cell.classList.add('sorted');
      cell.style.setProperty('--share', `${Math.max(value, 0) / column.most * 100}%`);
    }
    return cell;
  }

  histogramElement(column, slots, row, values) {
    const cell = element('td', {className: 'histogram'});
    if (slots.length === 0) return cell;
    const button = element('button', {type: 'button', title: 'Show it larger'},
                           smallHistogram(slots, column.scale));
    const name = values[this.columns.find((one) => one.kind === 'function').at];
    const range = describeHistogram(slots, HISTOGRAMS[column.kind]);
    button.setAttribute('aria-label', `${column.name} of ${name}: ${range}`);
    button.setAttribute('aria-expanded', 'false');
    button.onclick = () => this.toggleDetails(button, row, column, slots);
    cell.append(button);
    return cell;
  }

  toggleDetails(button, row, column, slots) {
    const isOpen = button.getAttribute('aria-expanded') === 'true';
    button.setAttribute('aria-expanded', String(!isOpen));
    if (isOpen) return row.nextSibling.remove();
    const cell = element('td', {colSpan: this.columns.length},
                         largeHistogram(slots, column.scale, HISTOGRAMS[column.kind]));
    row.after(element('tr', {className: 'details'}, cell));
  }

  matched() {
    return this.search.isEmpty ? '' : `${count(this.found.length)} of ${plural(this.size, 'row')}`;
  }
}
