// Give the cells of tables with three or more columns their headings, for narrow screens: bellhop.css.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll(".bd-article table.table")) {
    const headings = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    if (headings.length < 3) continue;
    table.classList.add("stacked");
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.children].forEach((cell, index) => {
        cell.dataset.heading = headings[index] ?? "";
      });
    }
  }
});
