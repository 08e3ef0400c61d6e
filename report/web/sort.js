// Sorts table rows by a click on a column's head. It compares the data-value of cells. If cells have none, it
// compares the words and numbers of their text. Empty cells are always last.
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
