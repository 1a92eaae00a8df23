"""Opens a page in Chromium without a window, runs a script in it, and prints what that returns, as JSON.

in_browser.py CHROMIUM FOLDER PAGE SCRIPT [FRAGMENT]
SCRIPT is what an async function does: it has `data`, what the page was made of; press(key, [element]);
chart(), the canvas of the view that is open; told(), what is said below it; and drawn(), after which
all is drawn. An error in the page is one here, too. FOLDER is for the browser's own files.
"""

import html
import pathlib
import re
import subprocess
import sys

chromium, folder, page, script, *fragment = sys.argv[1:]
# A browser without a window need not draw frames: what waits for one would wait for ever.
frames = '<script>window.requestAnimationFrame = (draw) => setTimeout(draw, 0);</script>'
start, end = '<body>', '</body>'
driver = '''<script>
const press = (key, on = document) =>
    on.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
const view = () => document.querySelector('section:not([hidden])');
const chart = () => view().querySelector('canvas');
const told = () => view().querySelector('.status').innerText;
const drawn = () => {
  tabs.view?.chart?.update();
  return new Promise((done) => setTimeout(done, 100));
};
drawn().then(async () => {
%s
}).catch((error) => ({failed: String(error)})).then((result) => {
  const out = document.createElement('pre');
  out.id = 'returned';
  out.textContent = JSON.stringify(result ?? null);
  document.body.append(out);
});
</script></body>''' % script
driven = pathlib.Path(folder) / 'driven.html'
text = pathlib.Path(page).read_text(encoding='utf-8')
assert text.count(start) == text.count(end) == 1
driven.write_text(text.replace(start, frames + start).replace(end, driver), encoding='utf-8')
run = subprocess.run(
    [chromium, '--headless=new', '--no-sandbox', '--disable-gpu', '--window-size=1200,900',
     f'--user-data-dir={folder}/profile', '--virtual-time-budget=10000', '--enable-logging=stderr',
     '--dump-dom', driven.absolute().as_uri() + ''.join(fragment)],
    capture_output=True, text=True, timeout=120, check=False)
messages = [line for line in run.stderr.splitlines() if ':CONSOLE' in line]
returned = re.search(r'<pre id="returned">(.*?)</pre>', run.stdout, re.S)
if messages or not returned:
    sys.exit('\n'.join(messages) or f'the page said nothing: {run.stderr[-2000:]}')
print(html.unescape(returned[1]))
