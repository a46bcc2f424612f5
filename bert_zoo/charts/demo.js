// The page of `bert_zoo demo`: texts and tables go to the server, which answers with HTML.
const main = element(document.body, "main");

function labelled(parent, name, label, attributes = {}) {
  const id = `field${document.querySelectorAll("label").length}`;
  const box = element(parent, "div", { class: "field" });
  element(box, "label", { for: id }, label);
  return element(box, name, { id, ...attributes });
}

// Adds a button and a place for answers. `request` makes an address and a body; `more` adds to the answer.
function answering(form, button, request, more = () => {}) {
  element(form, "button", {}, button);
  element(form, "span", { class: "keys" }, "Ctrl+Enter");
  const problem = element(form, "p", { class: "problem", role: "alert" });
  const result = element(form, "div", { class: "result", "aria-live": "polite", "aria-busy": "false" });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (result.ariaBusy === "true") return;
    result.ariaBusy = "true";
    problem.textContent = "";
    try {
      const [address, body] = request();
      const response = await fetch(address, { method: "POST", body }).catch(() => {
        throw new Error("The server does not answer. Is `bert_zoo demo` still running?");
      });
      const answer = await response.json();
      if (!response.ok) throw new Error(answer.error);
      result.innerHTML = answer.html; // the server has escaped texts
      more(result, answer);
      const notes = [...answer.notes, `${answer.milliseconds} ms in the model`];
      for (const note of notes) element(result, "p", { class: "state" }, note);
    } catch (error) {
      result.textContent = "";
      problem.textContent = error.message;
    }
    result.ariaBusy = "false";
  });
}

if (data.about) element(main, "p", {}, data.about);
const form = element(main, "form", { class: "card" });
const examples = data.examples.length > 1 && labelled(form, "select", "Example");
const areas = data.fields.map((field) => {
  const area = labelled(form, "textarea", field, { rows: field.endsWith(data.list) ? 5 : 3, dir: "auto" });
  area.required = !field.endsWith(data.optional);
  return area;
});

function fill(example) {
  areas.forEach((area, i) => (area.value = example[i]));
}
fill(data.examples[0]);
if (examples) {
  for (const example of data.examples) element(examples, "option", {}, shorten(example[0], 90));
  examples.addEventListener("change", () => fill(data.examples[examples.selectedIndex]));
}
answering(form, "Answer", () => ["answer", JSON.stringify(areas.map((area) => area.value))]);

if (data.columns.length) {
  const details = element(main, "details", { class: "card" });
  element(details, "summary", {}, "Predict a table (CSV)");
  const table = element(details, "form");
  const file = labelled(table, "input", "File", { type: "file", accept: ".csv,text/csv", required: "" });
  const row = element(table, "div", { class: "columns" });
  const names = ["Column of texts", "Column of second texts"];
  const columns = data.columns.map((value, i) => labelled(row, "input", names[i], { value }));
  const encoding = labelled(row, "input", "Encoding", { placeholder: "utf-8" });
  let url = "";
  answering(table, "Predict", () => {
    const [text, text_pair = ""] = columns.map((column) => column.value);
    const [{ name }] = file.files;
    const query = new URLSearchParams({ name, text, text_pair, encoding: encoding.value });
    return [`table?${query}`, file.files[0]];
  }, (result, { csv, rows }) => {
    URL.revokeObjectURL(url);
    url = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
    element(result, "a", { href: url, download: "predictions.csv" }, `Download the table (rows: ${rows})`);
  });
}
