// The frame of every page. Style sheet and scripts are inside the file, so that the page works without a
// network. The scripts zoom timelines, sort tables and filter table rows. Without scripts, everything can
// still be read.
//
// A zoom has a scale and a shift: a point at x pixels of the plot is drawn at (x - shift) * scale. One SVG
// transformation stretches all boxes. Numbers and ticks must not be stretched, so the script draws them
// again. Tested by html_report_test.cpp.

#include "report/print/html_page.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "text/escaping.hpp"

namespace penstock {
namespace {

// The CSS classes that pages use: alarm, note, scroll, charts, headlines, figures (sortable tables) and fit
// (maps).
constexpr std::string_view kStyle = R"css(
:root { color-scheme: light; }
body { margin: 24px auto; max-width: 1240px; padding: 0 16px; background: #fff; color: #222;
       font: 14px/1.45 Helvetica, Arial, sans-serif; }
h1 { font-size: 22px; margin: 0 0 12px; }
h2 { font-size: 17px; margin: 30px 0 8px; border-bottom: 1px solid #ddd; padding-bottom: 4px; }
h3 { font-size: 14px; margin: 14px 0 6px; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 3px 10px; border-bottom: 1px solid #e4e4e4; text-align: left; vertical-align: top; }
th { background: #f4f5f7; }
table.figures th { cursor: pointer; white-space: nowrap; }
table.figures th:hover { background: #e6eaf0; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
.headlines td:first-child { color: #666; white-space: nowrap; }
.headlines td { border: 0; padding: 2px 14px 2px 0; overflow-wrap: anywhere; }
.alarm { background: #fbe9e7; border-left: 4px solid #b00020; padding: 6px 12px; margin: 8px 0; }
.note { color: #555; margin: 4px 0; }
.charts { display: flex; flex-wrap: wrap; gap: 12px 24px; }
svg { max-width: 100%; height: auto; }
svg.penstock-timeline { cursor: grab; user-select: none; touch-action: pan-y; }
svg.penstock-timeline .zoom rect { vector-effect: non-scaling-stroke; }
table.fit td, table.fit th { text-align: center; min-width: 56px; }
td.best { outline: 2px solid #111; outline-offset: -2px; font-weight: bold; }
td.out_of_memory { background: repeating-linear-gradient(45deg, #f6d5d0 0 5px, #fbe9e7 5px 10px); }
td.skipped, td.absent { background: #f3f3f3; color: #767676; }
td.failed { background: #5b1a1a; color: #fff; }
)css";

/// A script that zooms timelines. The data-* attributes of the <svg> contain the plot's position and range,
/// and data-n of a box is its number. The picture is drawn at most once in each frame of the browser. Ticks
/// follow the same rule as in units.cpp. Text on boxes has the same colours as in palette.cpp.
constexpr std::string_view kZoomScript = R"js(
for (const svg of document.querySelectorAll('svg.penstock-timeline')) {
  const data = svg.dataset, left = +data.left, plot = +data.plot, makespan = +data.makespan;
  const zoom = svg.querySelector('.zoom'), labels = svg.querySelector('.labels'), axis = svg.querySelector('.axis');
  const box = rect => ({x: +rect.getAttribute('x'), y: +rect.getAttribute('y'), width: +rect.getAttribute('width'),
    height: +rect.getAttribute('height'), number: rect.dataset.n, fill: rect.getAttribute('fill')});
  const boxes = [...zoom.querySelectorAll('rect[data-n]')].map(box);
  const narrowMarks = [...zoom.querySelectorAll('line[data-width]')], patterns = svg.querySelectorAll('pattern');
  let scale = 1, shift = 0, pending = false, grabbed = null;
  const ink = fill => {
    const part = i => parseInt(fill.substr(i, 2), 16);
    return 0.299 * part(1) + 0.587 * part(3) + 0.114 * part(5) < 140 ? '#ffffff' : '#1a1a1a';
  };
  const numbers = () => boxes.filter(b => {
    const x = (b.x - shift) * scale, width = b.width * scale;
    return width >= 5 + 6.6 * b.number.length && x + width > 0 && x < plot;
  }).map(b => `<text x="${((b.x + b.width / 2 - shift) * scale).toFixed(2)}" y="${b.y + b.height / 2 + 4}" ` +
    `fill="${ink(b.fill)}">${b.number}</text>`).join('');
  const ticks = () => {
    const units = [[1, 'ns'], [1e3, 'us'], [1e6, 'ms'], [1e9, 's']];
    const [unit, name] = units.filter(u => makespan >= u[0]).pop() || units[0];
    const least = makespan / scale / Math.max(2, plot / 90), power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= least * (1 - 1e-9));
    const y = +data.axis, first = Math.ceil(shift / plot * makespan / step - 1e-9);
    let out = '';
    for (let i = first; i * step <= makespan * (shift + plot / scale) / plot * (1 + 1e-9); ++i) {
      const x = left + (i * step / makespan * plot - shift) * scale, text = i ? +(i * step / unit).toPrecision(12) + ' ' + name : '0';
      out += `<line x1="${x}" x2="${x}" y1="${y}" y2="${y + 5}" stroke="#555"/>` +
        `<text x="${x}" y="${y + 18}" text-anchor="middle">${text}</text>`;
    }
    return out;
  };
  const draw = () => {
    pending = false;
    zoom.setAttribute('transform', `translate(${left - shift * scale},0) scale(${scale},1)`);
    for (const mark of narrowMarks) mark.setAttribute('stroke-width', Math.min(2, mark.dataset.width * scale));
    for (const pattern of patterns) pattern.setAttribute('patternTransform', `scale(${1 / scale},1) rotate(45)`);
    labels.innerHTML = numbers();
    if (makespan > 0) axis.innerHTML = ticks();
  };
  const show = (newScale, newShift) => {
    scale = Math.min(1e5, Math.max(1, newScale));
    shift = Math.min(plot - plot / scale, Math.max(0, newShift));
    if (!pending) { pending = true; requestAnimationFrame(draw); }
  };
  const pixels = event => {
    const frame = svg.getBoundingClientRect();
    return (event.clientX - frame.left) / frame.width * svg.viewBox.baseVal.width - left;
  };
  svg.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const at = pixels(event), under = at / scale + shift;
    const factor = (event.deltaY || event.deltaX) < 0 ? 1.25 : 0.8, next = Math.min(1e5, Math.max(1, scale * factor));
    show(next, under - at / next);
  }, {passive: false});
  svg.addEventListener('pointerdown', event => { grabbed = pixels(event); svg.setPointerCapture(event.pointerId); });
  svg.addEventListener('pointermove', event => {
    if (grabbed === null) return;
    const at = pixels(event);
    show(scale, shift - (at - grabbed) / scale);
    grabbed = at;
  });
  svg.addEventListener('pointerup', () => { grabbed = null; });
  svg.addEventListener('dblclick', () => show(1, 0));
}
)js";

/// A script that sorts table rows. It compares the data-value of cells. If cells have none, it compares the
/// words and numbers of their text. Empty cells are always last.
constexpr std::string_view kSortScript = R"js(
for (const table of document.querySelectorAll('table.figures')) {
  const body = table.tBodies[0];
  const key = (row, column) => {
    const cell = row.cells[column], value = cell.dataset.value;
    return value !== undefined ? +value : cell.textContent;
  };
  const order = (a, b) => {
    if (a === '' || b === '') return (a === '') - (b === '');
    return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', {numeric: true});
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => head.addEventListener('click', () => {
    const sign = head.dataset.sorted === 'up' ? -1 : 1;
    for (const other of table.tHead.rows[0].cells) delete other.dataset.sorted;
    head.dataset.sorted = sign > 0 ? 'up' : 'down';
    body.append(...[...body.rows].sort((a, b) => {
      const x = key(a, column), y = key(b, column);
      return x === '' || y === '' ? order(x, y) : sign * order(x, y);
    }));
  }));
}
)js";

/// A script that filters table rows. It shows the rows that contain all words of the input. "name=value"
/// searches for the value only in the column `name`.
constexpr std::string_view kFilterScript = R"js(
for (const input of document.querySelectorAll('input.filter')) {
  const table = input.nextElementSibling.querySelector('table');
  const names = [...table.tHead.rows[0].cells].map(cell => cell.textContent.toLowerCase());
  const matches = (cells, word) => {
    const [name, value] = word.split('='), column = value === undefined ? -1 : names.indexOf(name);
    return column < 0 ? cells.some(cell => cell.includes(word)) : cells[column] === value;
  };
  input.addEventListener('input', () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(word => word);
    for (const row of table.tBodies[0].rows) {
      const cells = [...row.cells].map(cell => cell.textContent.trim().toLowerCase());
      row.hidden = !words.every(word => matches(cells, word));
    }
  });
}
)js";

}  // namespace

std::string html_page(const HtmlPage& page) {
  // The scripts contain < and &. CDATA sections inside JavaScript comments make the page valid XML in spite
  // of that.
  const std::string title = xml_escaped(page.title);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" "
      "content=\"width=device-width\"/>\n<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n"
      "<h1>{0}</h1>\n{2}<script>\n//<![CDATA[\n{3}{4}{5}//]]>\n</script>\n</body>\n</html>\n",
      title, kStyle, page.body, kZoomScript, kSortScript, page.has_filters ? kFilterScript : "");
}

}  // namespace penstock
