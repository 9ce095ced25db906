// The picture of an offer: a point lies where the words of the offer say that it is done.
import assert from "node:assert/strict";
import test from "node:test";
import { energyWords, fields, kindOf, place, trades } from "../../harness/frontend/src/charts/offer_points.js";

const way = (devices, likely, late, energy, what, best) =>
  fields([devices, likely - 1, likely, late, energy - 1, energy, energy + 1, what, "", best]);

test("a way lies at its latest finish, so that the leftmost is the fastest and one left of the deadline keeps it", () => {
  const sure = way("two, measured", 10, 11, 50, "fastest", "yes");
  const wide = way("four, assumed", 8, 24, 60, "possible", "");
  assert.deepEqual([sure, wide].map(place), [
    [11, 50],
    [24, 60],
  ]);
});

test("the line goes through the ways that the server says nothing beats, and no others", () => {
  const points = [
    way("one", 20, 30, 20, "recommended, cheapest", "yes"),
    way("two", 10, 15, 40, "fastest", "yes"),
    way("stages", 12, 20, 30, "possible", ""),
    way("too large", 1, 2, 1, "not possible", ""),
  ];
  assert.deepEqual(trades(points), [
    [15, 40],
    [30, 20],
  ]);
  assert.deepEqual(points.map(kindOf), ["named", "named", "open", "never"]);
});

test("where nothing beats one place alone there is no line, and none in the legend", () => {
  const alone = way("one", 10, 15, 40, "fastest", "yes");
  assert.deepEqual(trades([alone, way("stages", 12, 20, 60, "possible", "")]), []);
  assert.deepEqual(trades([alone, way("the same again", 10, 15, 40, "possible", "yes")]), []);
});

test("an end of a range of energy of which little would be left has its own unit, as in the table", () => {
  const words = (least, energy, most, unit) => energyWords({ least, energy, most }, unit);
  assert.equal(words(0.0661, 0.129, 0.279, "Wh"), "0.129 Wh (0.0661 to 0.279)");
  assert.equal(words(100 / 3.6e6, 0.25, 1.11, "kWh"), "0.25 kWh (100 J to 1.11)");
  assert.equal(words(2 / 3.6e6, 1800 / 3.6e6, 0.002, "kWh"), "0.5 Wh (2 J to 0.002 kWh)");
  assert.equal(words(0, 3, 9, "J"), "3 J (0 to 9)");
});
