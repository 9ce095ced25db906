// How long a page waits between its tries at a portal that is out of reach.
const WAITS_MS = [1000, 2000, 4000, 8000, 15_000];

export const waitMs = (tries) => WAITS_MS[Math.min(tries, WAITS_MS.length - 1)];
