// Which of the compared jobs is pointed at, and which lie within the ranges: all charts and the table follow.
const followers = { marked: new Set(), within: new Set() };
const state = { marked: null, within: null };

function tell(what, value) {
  if (state[what] === value) return;
  state[what] = value;
  for (const follow of followers[what]) follow(value);
}

// The id of a job, or null.
export const mark = (id) => tell("marked", id);
// A set of ids, or null for all.
export const keepWithin = (ids) => tell("within", ids);
export const withinNow = () => state.within;

export function follow(what, handler) {
  followers[what].add(handler);
  handler(state[what]);
}
