"use strict";
// Sorting, filtering, and opening what a link leads to. Without it the page is complete, in the order in which it was written.
const value = (row, column) => {
  const cell = row.cells[column];
  const text = cell.dataset.value ?? cell.textContent.trim();
  const number = Number.parseFloat(text.replaceAll(",", ""));
  return /^-?[\d,.]+( |$|%)/.test(text) && !Number.isNaN(number) ? number : text.toLowerCase();
};
const compare = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);
for (const table of document.querySelectorAll("table[data-sort]")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
      rows.sort((a, b) => (up ? 1 : -1) * compare(a[0], b[0]));
      table.tBodies[0].append(...rows.map((pair) => pair[1]));
    });
  });
}
for (const table of document.querySelectorAll("table[data-filter]")) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < 4) continue;
  const label = document.createElement("label"), input = document.createElement("input"), told = document.createElement("span");
  const texts = rows.map((row) => row.textContent.toLowerCase());
  label.className = "filter";
  input.type = "search";
  input.placeholder = "words that a line must hold";
  told.setAttribute("role", "status");
  label.append(`Filter ${table.dataset.filter}: `, input, " ", told);
  (table.closest(".scroll") ?? table).before(label);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !words.every((word) => texts[i].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    told.textContent = words.length ? `${shown} of ${rows.length}` : "";
  });
}
const follow = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (const details of target ? target.querySelectorAll(":scope > details, :scope > td > details") : []) details.open = true;
};
addEventListener("hashchange", follow);
follow();
