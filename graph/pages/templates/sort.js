document.addEventListener("click", event => {
  const head = event.target.closest("table.sorted th button");
  if (!head) return;
  const cell = head.parentNode, row = cell.parentNode, body = row.closest("table").tBodies[0];
  const at = [...row.children].indexOf(cell), down = cell.getAttribute("aria-sort") === "ascending";
  const key = line => line.children[at].dataset.v ?? line.children[at].textContent.trim();
  const order = (a, b) => {
    const x = key(a), y = key(b);
    if (x === "" || y === "") return (x === "") - (y === "");
    const d = isNaN(x) || isNaN(y) ? x.localeCompare(y, undefined, {numeric: true}) : x - y;
    return down ? -d : d;
  };
  for (const other of row.children) other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...[...body.rows].sort(order));
});
