# `-o FILE.html`: pages, opened in a browser.
load helpers
setup_file() { bats_require_minimum_version 1.5.0; }

paths="$TARGETS/paths"

needs_browser() {
  local name
  for name in chromium chromium-browser google-chrome; do
    browser=$(command -v $name) && return
  done
  skip "no Chromium is installed"
}

# in_page FILE FRAGMENT SCRIPT: what the script returns (in_browser.py) is the file `returned`.
in_page() {
  mkdir -p "$work/browser"
  python3 "$BATS_TEST_DIRNAME/in_browser.py" "$browser" "$work/browser" "$1" "$3" "$2" >"$work/returned"
}

# as_python FILE...: runs Python on stdin, with what the script returned as `page`.
as_python() {
  { printf 'import json, sys\npage = json.load(open(%s))\n' "'$work/returned'"; cat; } >"$work/check.py"
  python3 "$work/check.py" "$@"
}

record_paths() {
  "$PINPRICK" record -o "$work/x.rec" --tree 'paths:outer $arg1' paths:middle 'paths:leaf $arg1 $retval' \
    -- "$paths" 2>/dev/null
}

@test "a page of a recording has the figures of --functions, and can be sorted and searched" {
  needs_browser
  record_paths
  "$PINPRICK" report "$work/x.rec" -o "$work/x.html" 2>"$work/notes"
  grep -q 'x.html is a page: open it in a browser' "$work/notes"
  "$PINPRICK" report --functions --json "$work/x.rec" >"$work/records"
  in_page "$work/x.html" '' '
    const rows = () => [...view().querySelectorAll("tbody tr")].map((row) =>
        [row.querySelector(".name").textContent,
         ...[...row.querySelectorAll(".figure")].map((cell) => Number(cell.dataset.value))]);
    const byTotal = rows();
    view().querySelectorAll("th button")[0].click();
    const byName = rows();
    const search = document.getElementById("search");
    search.value = "LEA";
    search.dispatchEvent(new Event("input"));
    return {byTotal, byName, found: rows(), matches: document.getElementById("matches").value,
            title: document.title, facts: document.getElementById("facts").innerText,
            warned: !document.getElementById("warnings").hidden};'
  as_python "$work/records" <<'PYTHON'
told = [[x['function'], x['calls'], x['total_ns'], x['self_ns'], x['total_ns'] // x['calls'], x['longest_ns']]
        for x in map(json.loads, open(sys.argv[1]))]
assert len(told) == 3 and page['byTotal'] == told, (page['byTotal'], told)
assert [row[0] for row in page['byName']] == ['leaf', 'middle', 'outer']
assert [row[0] for row in page['found']] == ['leaf'] and page['matches'] == '1 of 3 rows'
assert page['title'].startswith('paths (') and not page['warned']
facts = page['facts'].split('\n')
# The machine of a recording is not known.
assert facts[::2] == ['Command', 'Began', 'Measured'] and '--tree' in facts[1], facts
PYTHON
}

@test "its flame graph has each path of calls, and its timeline each call with its arguments" {
  needs_browser
  record_paths
  "$PINPRICK" report "$work/x.rec" -o "$work/x.html" 2>/dev/null
  # From the program's own loops: outer() is called 1,000 times, and calls middle(), which calls leaf().
  in_page "$work/x.html" '#tab=2' '
    const lines = [told()];
    for (let i = 0; i < 3; ++i) { press("ArrowDown", chart()); lines.push(told()); }
    return lines;'
  as_python <<'PYTHON'
assert page[0].startswith('all\n') and '(100.0%)' in page[0]
assert [line.split('\n')[0] for line in page[1:]] == ['outer', 'middle', 'leaf'], page
assert all(' · 1,000 calls' in line for line in page[1:]), page
PYTHON
  in_page "$work/x.html" '#tab=3' '
    const search = document.getElementById("search");
    search.value = "leaf";
    search.dispatchEvent(new Event("input"));
    const lines = [];
    for (let i = 0; i < 2; ++i) { press("n"); await drawn(); lines.push(told()); }
    const pixels = () => chart().toDataURL();
    const all = pixels();
    for (let i = 0; i < 30; ++i) press("w");
    await drawn();
    const near = pixels();
    press("0");
    await drawn();
    const isBack = pixels() === all;
    // Of what shares a pixel, that is drawn which matches, whichever it is.
    const [track] = tabs.view.tracks, lane = track.lanes.at(-1), missed = [];
    let shown;
    tabs.view.chart.drawSlice = (track, i) => shown.push(i);
    for (const i of lane.slice(100, 110)) {
      search.value = data.timeline.texts[track.texts[i]].replace(/.* /, "= ");
      search.dispatchEvent(new Event("input"));
      shown = [];
      await drawn();
      if (shown.length === 0 || shown.length === track.size || !shown.some((one) => tabs.view.isFound(track, one)))
        missed.push(search.value);
    }
    const cut = new TimelineView({...data.timeline, all: 9e6, untold: 7}, data.names, data.objects).warnings();
    return {lines, isZoomed: near !== all, isBack, missed, cut,
            kept: data.timeline.kept, all: data.timeline.all};'
  as_python <<'PYTHON'
import re
for line in page['lines']:
    # leaf() returns what it is given.
    found = re.match(r'leaf\(\$arg1=(\d+)\) = (\d+)\n', line)
    assert found and found[1] == found[2], page
assert page['lines'][0] != page['lines'][1]
assert page['isZoomed'] and page['isBack'] and page['kept'] == page['all'] >= 3000, page
assert page['missed'] == [], page['missed']
assert page['cut'][0].startswith('The 4,007 longest of 9,000,000 calls') and page['cut'][1].startswith('What 7 of')
PYTHON
}

@test "names and texts of a program are shown as they are, and are no part of the page" {
  needs_browser
  cat >"$work/hostile.s" <<'ASSEMBLY'
        .globl main, "</script><img src=x onerror=document.title=1>TURNED"
        .type main, @function
        .type "</script><img src=x onerror=document.title=1>TURNED", @function
"</script><img src=x onerror=document.title=1>TURNED":
        mov %rdi, %rax
        nop
        nop
        nop
        ret
        .size "</script><img src=x onerror=document.title=1>TURNED", . - "</script><img src=x onerror=document.title=1>TURNED"
main:   sub $8, %rsp
        lea text(%rip), %rdi
        call "</script><img src=x onerror=document.title=1>TURNED"
        add $8, %rsp
        xor %eax, %eax
        ret
        .size main, . - main
        .section .rodata
text:   .asciz "<b>bold</b><!--<script>\033[2J\342\200\256\377"
        .section .note.GNU-stack, "", @progbits
ASSEMBLY
  sed -i "s/TURNED/$(printf '\342\200\256')/g" "$work/hostile.s"
  gcc -o "$work/hostile" "$work/hostile.s"
  "$PINPRICK" trace --tree -o "$work/x.html" 'hostile:*script* $arg1:string' -- "$work/hostile" 2>/dev/null
  in_page "$work/x.html" '' '
    const name = view().querySelector("tbody .name").textContent;
    document.getElementById("tab-3").click();
    await drawn();
    press("n");
    return {name, told: told(), title: document.title, strange: document.querySelectorAll("img, b").length,
            scripts: document.querySelectorAll("script").length};'
  as_python <<'PYTHON'
# Its mark that turns the direction of text is seen as a character.
name = '</script><img src=x onerror=document.title=1>\ufffd'
assert not {'\x1b', '\u202e'} & set(page['told']), page
assert page['name'] == name and page['told'].startswith(name + '($arg1="<b>bold</b><!--<script>'), page
# Those of the page, and the two of in_browser.py.
assert page['title'].startswith('hostile (') and page['strange'] == 0 and page['scripts'] == 4, page
PYTHON
}

@test "a table of 10,000 functions draws some hundred rows at a time, and all are found" {
  needs_browser
  {
    printf '        .globl main\n        .type main, @function\nmain:   sub $8, %%rsp\n'
    for ((i = 0; i < 10000; ++i)); do printf '        call function%d\n' $i; done
    printf '        add $8, %%rsp\n        xor %%eax, %%eax\n        ret\n        .size main, . - main\n'
    for ((i = 0; i < 10000; ++i)); do
      printf '        .type function%d, @function\nfunction%d:\n        nop\n        nop\n' $i $i
      printf '        nop\n        nop\n        nop\n        ret\n        .size function%d, . - function%d\n' $i $i
    done
    printf '        .section .note.GNU-stack, "", @progbits\n'
  } >"$work/many.s"
  gcc -o "$work/many" "$work/many.s"
  "$PINPRICK" latency -o "$work/x.html" 'many:function*' -- "$work/many" 2>/dev/null
  in_page "$work/x.html" '' '
    const search = document.getElementById("search");
    const size = document.querySelector("[role=tab] small").textContent;
    const drawnRows = view().querySelectorAll("tbody tr").length;
    search.value = "function9876";
    search.dispatchEvent(new Event("input"));
    return [size, drawnRows, document.getElementById("matches").value, view().querySelector("tbody .name").textContent];'
  as_python <<'PYTHON'
assert page[0] == '10,000' and 0 < page[1] < 1000 and page[2:] == ['1 of 10,000 rows', 'function9876'], page
PYTHON
}

@test "figures by stack are a flame graph, and those of latency have histograms" {
  needs_browser
  "$PINPRICK" count --by stack -o "$work/x.html" paths:leaf -- "$paths" 2>/dev/null
  # The innermost box that matches `other` has what it leads to: 500 hits of leaf().
  in_page "$work/x.html" '#tab=2' '
    const tree = new CallTree(data.flames[0], data.names);
    const all = [];
    for (let path = 1; path <= tree.size; ++path)
      all.push([tree.nameOf(path), tree.nameOf(tree.before[path]), tree.total[path]]);
    return {all, told: told(), facts: document.getElementById("facts").innerText.split("\n")};'
  as_python "$(uname -n) (Linux " <<'PYTHON'
assert ['other', 'main', 500] in page['all'] and ['leaf', 'middle', 1000] in page['all'], page['all']
assert page['told'] == 'all\n1,967 hits (100.0%)', page['told']
facts = page['facts']
assert facts[::2] == ['Command', 'Machine', 'Began', 'Measured'] and facts[3].startswith(sys.argv[1]), facts
PYTHON
  "$PINPRICK" latency --json -o "$work/records" paths:leaf paths:outer -- "$paths"
  "$PINPRICK" latency -o "$work/x.html" paths:leaf paths:outer -- "$paths" 2>/dev/null
  in_page "$work/x.html" '' '
    const at = data.tables[0].columns.findIndex(({kind}) => kind === "durations");
    const counts = data.tables[0].rows.map((row) =>
        [row[0], row[at].reduce((sum, value, i) => sum + (i % 3 === 2 ? value : 0), 0)]);
    view().querySelector("td.histogram button").click();
    return {counts, axis: [...view().querySelectorAll(".details text")].map((text) => text.textContent)};'
  as_python "$work/records" <<'PYTHON'
counts = {r['function']: r['count'] for r in map(json.loads, open(sys.argv[1])) if r['type'] == 'latency' and r['final']}
assert dict(page['counts']) == counts == {'leaf': 1967, 'outer': 1000}, (page['counts'], counts)
assert any(text in page['axis'] for text in ('10 ns', '100 ns', '1 µs')), page['axis']
PYTHON
}

@test "what was lost is said at the top, and so is that a recording was cut or is damaged" {
  needs_browser
  "$PINPRICK" record --buffer 4K -o "$work/x.rec" --tree 'libc:malloc $arg1' -- \
    python3 -S -c 'import json; [json.dumps([i] * 99) for i in range(30000)]' 2>"$work/notes"
  grep -q 'dropped [1-9]' "$work/notes" || skip "nothing was dropped"
  "$PINPRICK" report "$work/x.rec" -o "$work/x.html" 2>/dev/null
  in_page "$work/x.html" '' 'return document.getElementById("warnings").innerText;'
  as_python "$work/notes" <<'PYTHON'
import re
told = re.search(r'dropped ([0-9,]+)', open(sys.argv[1]).read())[1]
assert f'not recorded: dropped {told}' in page, (page, told)
PYTHON
  # Of a recording that was cut, or damaged, all that is there.
  head -c "$(($(stat -c %s "$work/x.rec") - 40))" "$work/x.rec" >"$work/cut.rec"
  "$PINPRICK" report "$work/cut.rec" -o "$work/x.html" 2>/dev/null
  in_page "$work/x.html" '' 'return document.getElementById("warnings").innerText;'
  grep -q 'the recording has no end' "$work/returned"
  head -c 100 /dev/zero >>"$work/cut.rec"
  run -1 "$PINPRICK" report "$work/cut.rec" -o "$work/x.html"
  in_page "$work/x.html" '' 'return document.getElementById("warnings").innerText;'
  grep -q damaged "$work/returned"
}

@test "a page of which a part is wanted, or that has no meaning, is refused" {
  record_paths
  local words
  for words in 'report --slower 1ms' 'report --depth 2'; do
    run -2 "$PINPRICK" $words "$work/x.rec" -o "$work/x.html"
    [[ $output == *'a page (.html) has the whole tree'* ]]
  done
  run -2 "$PINPRICK" diff -o "$work/x.html" "$work/x.rec" "$work/x.rec"
  run -2 "$PINPRICK" leaks -o "$work/x.html" -- "$paths"
  run -2 "$PINPRICK" top -o "$work/x.html" -- "$paths"
  run -2 "$PINPRICK" count --once -o "$work/x.html" paths:leaf -- "$paths"
  run -2 "$PINPRICK" report --functions "$work/x.rec" -o "$work/x.html"
  [ ! -s "$work/x.html" ]
}

@test "the script of a page is JavaScript that any engine reads" {
  command -v node >/dev/null || skip "no node is installed"
  "$PINPRICK" count -o "$work/x.html" paths:leaf -- "$paths" 2>/dev/null
  python3 - "$work/x.html" >"$work/page.js" <<'PYTHON'
import re, sys
print(re.findall(r'<script>(.*?)</script>', open(sys.argv[1]).read(), re.S)[0])
PYTHON
  grep -q 'class TimelineView' "$work/page.js"
  node --check "$work/page.js"
}
