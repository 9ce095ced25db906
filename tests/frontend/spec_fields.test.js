// The fields of the form of a spec.
import assert from "node:assert/strict";
import test from "node:test";
import { faults, get, offerFor, put, shown, textOf, valueIn } from "../../harness/frontend/src/spec_fields.js";

process.env.TZ = "Europe/Berlin";

function field(spec, kind, value = "", { badInput = false, ...bounds } = {}) {
  return { dataset: { spec, kind, ...bounds }, value, validity: { badInput } };
}

const messages = (...fields) => faults(fields).map(({ message }) => message);

test("a value lies where its path says", () => {
  const spec = { data: "auto" };
  put(spec, "data.split.test", 0.2);
  assert.deepEqual(spec, { data: { split: { test: 0.2 } } });
  assert.deepEqual(
    [get(spec, "data.split.test"), get(spec, "data.split.test.more"), get(spec, "model.size")],
    [0.2, undefined, undefined],
  );
  put(spec, "data.split.test", undefined);
  assert.deepEqual(spec, { data: { split: {} } });
});

test("what a field shows is read back as the same value", () => {
  const cases = [
    [field("training.epochs", "number"), 12],
    [field("data.features", "list"), ["id", "row number"]],
    [field("data.exclude", "columns"), ["id", "last, first", 'so "called"']],
    [field("data.target", "text"), "price"],
    [field("deadline", "moment"), "2026-03-10T12:34:00.000Z"],
  ];
  for (const [one, value] of cases) assert.deepEqual(valueIn(one, textOf(one, value)), value);
});

test("an empty field leaves the choice to the harness", () => {
  const empty = (path, kind) => valueIn(field(path, kind), "");
  assert.deepEqual(
    [
      empty("training.epochs", "number"),
      empty("data.exclude", "columns"),
      empty("name", "text"),
      empty("data.split.test", "number"),
    ],
    ["auto", [], "", undefined],
  );
  assert.equal(textOf(field("data.exclude", "columns"), []), "");
  for (const value of ["auto", null, undefined]) assert.equal(textOf(field("training.epochs", "number"), value), "");
});

test("a comma may be the decimal mark, but never one of thousands", () => {
  const rate = (text) => valueIn(field("training.learning_rate", "number", text), text);
  assert.deepEqual(["0,003", ".5", "3e-4", "1,5E+2", "-2"].map(rate), [0.003, 0.5, 0.0003, 150, -2]);
  for (const text of ["1,000.5", "1 000", "0x10", "Infinity", "e3", ","])
    assert.equal(messages(field("training.learning_rate", "number", text)).length, 1, text);
  for (const text of ["1.000", "1,000", "2.0"])
    assert.equal(messages(field("training.epochs", "number", text, { whole: "1" })).length, 1, text);
});

test("a value that was guessed is told in words", () => {
  assert.equal(shown({ test: 0.15, columns: ["a", "b"] }), "test 0.15, columns a, b");
  assert.deepEqual([shown(12345), shown(true)], ["12,345", "true"]);
});

test("a number is held to its bounds", () => {
  const rate = (value) => messages(field("training.learning_rate", "number", value, { gt: "0", le: "1" }));
  assert.deepEqual([rate("0"), rate("1.5"), rate("1"), rate("")], [["More than 0."], ["At most 1."], [], []]);
  const epochs = (value) => messages(field("training.epochs", "number", value, { whole: "1", ge: "1", lt: "1000" }));
  assert.deepEqual(
    [epochs("2.5"), epochs("0"), epochs("1000"), epochs("999")],
    [["Enter a whole number, in digits alone."], ["At least 1."], ["Less than 1,000."], []],
  );
});

test("what the browser could not read is told by what is wanted", () => {
  assert.deepEqual(messages(field("training.learning_rate", "number", "1.2.3")), ["Enter a number, such as 0.5."]);
  assert.deepEqual(messages(field("training.epochs", "number", "many", { whole: "1" })), [
    "Enter a number, such as 50.",
  ]);
  assert.deepEqual(messages(field("deadline", "moment", "", { badInput: true })), ["Enter a complete date and time."]);
});

test("a deadline lies ahead", () => {
  assert.equal(messages(field("deadline", "moment", "2001-01-01T00:00")).length, 1);
  assert.deepEqual(messages(field("deadline", "moment", "2999-01-01T00:00"), field("deadline", "moment")), []);
});

test("validation and test together leave rows to train on", () => {
  const part = (name, value) => field(`data.split.${name}`, "number", value);
  const [found, ...others] = faults([part("val", "0.5"), part("test", "0.5")]);
  assert.equal(found.field, "data.split.test");
  assert.deepEqual(others, []);
  assert.deepEqual(faults([part("val", "0.5"), part("test", "0.4")]), []);
});

test("metrics are offered that fit the task, all while it is unknown, and what is chosen stays to be seen", () => {
  const group = (tasks, ...values) => ({ dataset: { tasks }, children: values.map((value) => ({ value })) });
  const classes = group("image_classification tabular_classification", "accuracy");
  const numbers = group("forecast tabular_regression", "r2");
  const select = { value: "", querySelectorAll: () => [classes, numbers] };
  const offered = (task) => {
    offerFor(select, task);
    return [classes, numbers].map(({ hidden, disabled }) => !hidden && !disabled);
  };
  assert.deepEqual(offered("tabular_classification"), [true, false]);
  assert.deepEqual(offered("forecast"), [false, true]);
  assert.deepEqual(offered(undefined), [true, true]);
  select.value = "accuracy";
  assert.deepEqual(offered("tabular_regression"), [true, true]);
});
