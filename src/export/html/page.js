// The page around the views: what is known of the measurement, the tabs, the search.

const data = JSON.parse(document.getElementById('data').textContent);
const header = {
  title: document.getElementById('title'),
  facts: document.getElementById('facts'),
  warnings: document.getElementById('warnings')
};
const searchBox = document.getElementById('search');
const matches = document.getElementById('matches');

function warn(text) {
  header.warnings.hidden = false;
  header.warnings.append(element('li', {}, text));
}

window.addEventListener('error', (event) => {
  warn(`The page is broken: ${event.message}`);
  document.documentElement.dataset.failed = event.message;
});

// In the reader's time zone, which the text names: a page may be read far from where it was made.
function localTime(ns) {
  const time = new Date(ns / 1e6);
  const two = (number) => String(Math.floor(number)).padStart(2, '0');
  const east = -time.getTimezoneOffset(), zone = Math.abs(east);
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ` +
      `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())} ` +
      `UTC${east < 0 ? '−' : '+'}${two(zone / 60)}:${two(zone % 60)}`;
}

function showHeader() {
  const facts = [...data.facts];
  const measured = facts.findIndex(([name]) => name === 'Measured');
  if (data.start_ns > 0)
    facts.splice(measured < 0 ? facts.length : measured, 0, ['Began', localTime(data.start_ns)]);
  const process = facts.find(([name]) => name === 'Process');
  header.title.textContent = process ? process[1] : 'pinprick';
  document.title = `${header.title.textContent} · pinprick`;
  for (const [name, text] of facts) {
    if (name === 'Made by') document.getElementById('maker').textContent = text;
    else if (name !== 'Process')
      header.facts.append(element('dt', {}, name),
                          element('dd', {className: name === 'Command' ? 'command' : ''}, text));
  }
  for (const text of data.warnings) warn(text);
}

function makeViews() {
  const views = data.tables.map((table) => new TableView(table));
  for (const flame of data.flames) views.push(new FlameView(flame, data.names, data.objects));
  if (data.timeline.tracks)
    views.push(new TimelineView(data.timeline, data.names, data.objects));
  return views;
}

// Tabs, as https://www.w3.org/WAI/ARIA/apg/patterns/tabs has them.
class Tabs {
  constructor(views) {
    this.views = views;
    const list = document.getElementById('tabs'), all = document.getElementById('views');
    this.tabs = views.map((view, i) => {
      const name = `view-${i + 1}`;
      const tab = element('button', {type: 'button', id: `tab-${i + 1}`}, view.title, ' ',
                          element('small', {}, count(view.size)));
      view.panel = element('section', {id: name, hidden: true, tabIndex: -1});
      tab.setAttribute('role', 'tab');
      tab.setAttribute('aria-controls', name);
      view.panel.setAttribute('role', 'tabpanel');
      view.panel.setAttribute('aria-labelledby', tab.id);
      tab.onclick = () => this.open(i);
      tab.onkeydown = (event) => this.press(event, i);
      list.append(tab);
      all.append(view.panel);
      return tab;
    });
  }

  get view() { return this.views[this.at]; }

  // A view draws its elements when it is opened for the first time.
  open(at) {
    this.at = at;
    this.tabs.forEach((tab, i) => {
      tab.setAttribute('aria-selected', String(i === at));
      tab.tabIndex = i === at ? 0 : -1;
      this.views[i].panel.hidden = i !== at;
    });
    if (!this.view.isOpened) this.view.show(this.view.panel);
    this.view.isOpened = true;
    find();
    // No element has it as its name: else the browser would scroll there. A frame without an
    // origin, as some mail programs and CI servers have for pages, is refused this.
    try {
      history.replaceState(null, '', `#tab=${at + 1}`);
    } catch {
      // The page works without.
    }
  }

  press(event, at) {
    const size = this.tabs.length;
    const next = {
      ArrowRight: (at + 1) % size, ArrowLeft: (at + size - 1) % size, Home: 0, End: size - 1
    };
    const to = next[event.key];
    if (to === undefined) return;
    this.open(to);
    this.tabs[to].focus();
    event.preventDefault();
    event.stopPropagation();
  }
}

function find() {
  tabs.view.setSearch(new Search(searchBox.value));
  matches.value = tabs.view.matched();
}

function pressKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === searchBox) {
    if (event.key === 'Escape') searchBox.blur();
    return;
  }
  if (event.key === '/') {
    searchBox.focus();
    event.preventDefault();
  } else {
    tabs.view.press?.(event);
  }
}

showHeader();
const tabs = new Tabs(makeViews());
if (tabs.views.length > 0) {
  const wanted = Number(/^#tab=(\d+)$/.exec(location.hash)?.[1] ?? 1) - 1;
  tabs.open(wanted in tabs.views ? wanted : 0);
  searchBox.addEventListener('input', find);
  document.addEventListener('keydown', pressKey);
} else {
  document.getElementById('views').append(
      element('p', {className: 'nothing'}, 'Nothing was recorded.'));
  document.querySelector('nav').hidden = true;
}
document.documentElement.dataset.loadedMs = performance.now().toFixed(0);
