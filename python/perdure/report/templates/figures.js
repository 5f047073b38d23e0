// The data of a figure stand in the page once, in the link to its CSV; a table is made of them when
// it is unfolded.
function rowsOf(figure) {
  const href = figure.querySelector("a.csv").href;
  const text = decodeURIComponent(href.slice(href.indexOf(",") + 1));
  const field = /("(?:[^"]|"")*"|[^,\n]*)(,|\n|$)/g, rows = [[]];
  for (let found; field.lastIndex < text.length && (found = field.exec(text)); ) {
    const plain = found[1].startsWith('"') ? found[1].slice(1, -1).replaceAll('""', '"') : found[1];
    rows.at(-1).push(plain);
    if (found[2] === "\n") rows.push([]);
  }
  return rows.filter((row) => row.length);
}
function shown(text) {
  if (!/^-?\d+\.\d+(e[-+]?\d+)?$/.test(text)) return text;
  const number = Number(text);
  return Math.abs(number) >= 100 ? Math.round(number).toLocaleString("en") : String(Number(number.toPrecision(4)));
}
function made(tag, text = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}
function fill(fold) {
  const hint = fold.querySelector("p");
  if (!hint) return;
  const [head, ...rows] = rowsOf(fold.closest("figure")), table = made("table");
  table.className = "data";
  const line = table.createTHead().insertRow(), body = table.createTBody();
  for (const name of head) line.append(made("th", name.replaceAll("_", " ")));
  for (const row of rows) {
    const here = body.insertRow();
    row.forEach((text, column) => {
      const cell = here.insertCell();
      if (head[column] !== "cell") cell.textContent = shown(text);
      else cell.append(Object.assign(made("a", text), {href: `#cell-${text}`}));
    });
  }
  const box = made("div");
  box.className = "scroll";
  box.tabIndex = 0;
  box.append(table);
  hint.replaceWith(box);
  tell(box);
}
for (const fold of document.querySelectorAll("details.numbers")) {
  fold.addEventListener("toggle", () => fill(fold));
  if (fold.open) fill(fold);
}

// A drawing as a file of its own: its pieces where they stand here, in the colours of a light page.
function picture(figure) {
  const drawing = figure.querySelector(".drawing"), whole = drawing.getBoundingClientRect();
  const space = "http://www.w3.org/2000/svg", file = document.createElementNS(space, "svg");
  const all = {viewBox: `0 0 ${whole.width} ${whole.height}`, width: whole.width, height: whole.height,
    "font-family": "Inter, 'Segoe UI', system-ui, sans-serif", "font-size": 11};
  for (const [name, value] of Object.entries(all)) file.setAttribute(name, value);
  for (const [tag, part] of [["title", "h3 a"], ["desc", "figcaption"]]) {
    const words = document.createElementNS(space, tag);
    words.textContent = figure.querySelector(part).textContent;
    if (tag === "title") words.textContent += ` (${figure.querySelector("h3 .tag").textContent})`;
    file.append(words);
  }
  for (const piece of drawing.querySelectorAll("svg")) {
    const box = piece.getBoundingClientRect(), copy = piece.cloneNode(true);
    const place = {x: box.left - whole.left, y: box.top - whole.top, width: box.width, height: box.height};
    for (const [name, value] of Object.entries(place)) copy.setAttribute(name, value);
    copy.removeAttribute("style");
    file.append(copy);
  }
  return new XMLSerializer().serializeToString(file).replaceAll("currentColor", "#000");
}
for (const button of document.querySelectorAll("button.picture")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const figure = button.closest("figure"), link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([picture(figure)], {type: "image/svg+xml"}));
    link.download = `${figure.id}.svg`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}
