// Exponential moving average without the bias of its start; gaps (null) stay gaps and do not enter.
export function smooth(values, weight) {
  if (!weight) return values;
  let average = 0;
  let share = 0;
  return values.map((value) => {
    if (value === null || value === undefined) return value;
    average = weight * average + (1 - weight) * value;
    share = weight * share + (1 - weight);
    return average / share;
  });
}

// Largest and smallest value of each bucket survive, so that a spike is never hidden by thinning.
export function thin(points, limit) {
  if (points.length <= limit) return points;
  const size = Math.ceil(points.length / (limit / 2));
  const kept = [];
  for (let start = 0; start < points.length; start += size) {
    let low = start;
    let high = start;
    for (let index = start; index < Math.min(start + size, points.length); index += 1) {
      if (points[index].value === null) continue;
      if (points[low].value === null || points[index].value < points[low].value) low = index;
      if (points[high].value === null || points[index].value > points[high].value) high = index;
    }
    kept.push(points[Math.min(low, high)]);
    if (low !== high) kept.push(points[Math.max(low, high)]);
  }
  return kept;
}
