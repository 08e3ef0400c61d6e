// Sorts and folds tables. A click on a column's head sorts the rows. It compares the data-value of cells, or else the
// number in their text with its unit, or else the words and numbers of their text. Empty cells are always last. Of a
// table with more than fifty rows the first fifty are shown, and a button shows the others.
const units = {'': 1, ns: 1, us: 1e3, ms: 1e6, s: 1e9, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, PiB: 2 ** 50, '%': 0.01};
for (const table of document.querySelectorAll('table.figures')) {
  const body = table.tBodies[0];
  const key = (row, column) => {
    const cell = row.cells[column], value = cell.dataset.value;
    if (value !== undefined) return +value;
    const [, number, unit] = cell.textContent.match(/^(-?[\d.]+) ?(\D*)$/) ?? [];
    return !(unit in units) ? cell.textContent : number * units[unit];
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

const shownRows = 50;
for (const table of document.querySelectorAll('table.figures')) {
  const count = table.tBodies[0].rows.length;
  if (count <= shownRows) continue;
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'unfold';
  const fold = isFolded => {
    table.classList.toggle('folded', isFolded);
    button.textContent = isFolded ? `show all ${count} rows` : `show the first ${shownRows} rows`;
    button.setAttribute('aria-expanded', !isFolded);
  };
  button.addEventListener('click', () => fold(!table.classList.contains('folded')));
  fold(true);
  table.after(button);
}
