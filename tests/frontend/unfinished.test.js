// Which unfinished uploads the upload page shows, and what it says of them.
import assert from "node:assert/strict";
import test from "node:test";
import { unfinished } from "../../harness/frontend/src/unfinished.js";

const entry = (id) => ({ uploadUrl: `/api/v1/uploads/${id}`, size: 9, metadata: { filename: `${id}.csv` } });
const upload = (id) => ({
  id,
  filename: `${id}.csv`,
  project: "orchard",
  size_bytes: 9,
  offset_bytes: 4,
  expires_at: "2030-01-02T00:00:00Z",
});

test("an upload that the portal has no more is not promised to continue", () => {
  assert.deepEqual(
    unfinished([entry("expired"), entry("half")], [upload("half")]).map((row) => row.name),
    ["half.csv"],
  );
});

test("an upload begun in another browser is shown, and known as one that does not continue here", () => {
  const [own, other] = unfinished([entry("own")], [upload("own"), upload("other")]);
  assert.ok(own.entry);
  assert.equal(other.entry, null);
  assert.equal(other.sent, 4);
  assert.equal(other.project, "orchard");
  assert.equal(other.until.getUTCFullYear(), 2030);
});

test("where the portal does not answer what the browser remembers is shown", () => {
  const [row] = unfinished([entry("half")], null);
  assert.equal(row.name, "half.csv");
  assert.equal(row.sent, undefined);
});
