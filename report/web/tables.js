// Sorts and folds tables. A click on a column's head sorts the rows. It compares the data-value of cells; if cells have
// none, it compares the words and numbers of their text. Empty cells are always last. Of a table with more than fifty
// rows the first fifty are shown, and a button shows the others.
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
