// Filters table rows. It shows the rows that contain all words of the input. "name=value" searches for the value
// only in the column `name`.
for (const input of document.querySelectorAll('input.filter')) {
  const table = input.nextElementSibling.querySelector('table');
  const names = [...table.tHead.rows[0].cells].map(cell => cell.textContent.toLowerCase());
  const matches = (cells, word) => {
    const [name, value] = word.split('='), column = value === undefined ? -1 : names.indexOf(name);
    return column < 0 ? cells.some(cell => cell.includes(word)) : cells[column] === value;
  };
  input.addEventListener('input', () => {
    table.classList.toggle('filtered', input.value.trim() !== '');
    const words = input.value.toLowerCase().split(/\s+/).filter(word => word);
    for (const row of table.tBodies[0].rows) {
      const cells = [...row.cells].map(cell => cell.textContent.trim().toLowerCase());
      row.hidden = !words.every(word => matches(cells, word));
    }
  });
}
