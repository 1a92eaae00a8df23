// Figures, texts and colours, as the page shows them.
'use strict';

function threeDigits(value) {
  return value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

// Returns the digits and the unit. The smallest unit has whole numbers.
function scaled(value, units, step) {
  let unit = 0;
  for (; unit + 1 < units.length && Math.abs(value) >= step - 0.5; ++unit) value /= step;
  return [unit === 0 ? value.toFixed(0) : threeDigits(value), units[unit]];
}

const DURATIONS = ['ns', 'µs', 'ms', 's'];
const MAGNITUDES = ['', 'k', 'M', 'G', 'T', 'P', 'E'];

function duration(ns) {
  return scaled(ns, DURATIONS, 1000).join(' ');
}

function count(number) {
  return number.toLocaleString('en-US', {maximumFractionDigits: 0});
}

function plural(number, what) {
  return `${count(number)} ${what}${number === 1 ? '' : 's'}`;
}

function percent(part, whole) {
  return whole === 0 ? '0%' : `${(part / whole * 100).toFixed(part / whole < 0.1 ? 2 : 1)}%`;
}

// Returns the digits and the unit of a number that has no unit of its own.
function plainParts(value) {
  if (Math.abs(value) >= 1e7) return scaled(value, MAGNITUDES, 1000);
  return [Number.isInteger(value) || Math.abs(value) >= 100 ? count(value) : value.toFixed(2), ''];
}

function plain(value) {
  return plainParts(value).join(' ').trimEnd();
}

function inUnit(value, unit) {
  return unit === 'ns' ? duration(value) : `${plain(value)} ${unit}`;
}

// Makes an element. Texts become text and never HTML: names come from other programs.
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function drawing(tag, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const darkScheme = window.matchMedia('(prefers-color-scheme: dark)');

// One function has one hue in all views, of eighteen.
function hueOf(name) {
  let hash = 2166136261;
  for (let i = 0; i < name.length; ++i) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  return ((hash ^ hash >>> 15) >>> 0) % 18 * 20 + 8;
}

function colorOf(name) {
  return darkScheme.matches ? `hsl(${hueOf(name)} 26% 34%)` : `hsl(${hueOf(name)} 48% 82%)`;
}

function strongColorOf(name) {
  return `hsl(${hueOf(name)} 42% ${darkScheme.matches ? 52 : 62}%)`;
}

function themeColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// What the search box says: all of its words are in a text that matches.
class Search {
  constructor(text) {
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
  }
  get isEmpty() { return this.words.length === 0; }
  matches(text) {
    const lower = text.toLowerCase();
    return this.words.every((word) => lower.includes(word));
  }
}
