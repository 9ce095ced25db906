// Unfinished uploads: what the portal holds of them, and which of them this browser can continue.

const idOf = (url) => url?.split("/").filter(Boolean).at(-1);

// `kept`: those that this browser remembers; `held`: those that the portal has, null where it did not answer. One that
// the portal has no more, finished or expired, is none. One begun elsewhere, in another browser or by `dlh`, is told as
// that: it takes room, too.
export function unfinished(kept, held) {
  if (!held) {
    return kept.map((entry) => ({
      name: entry.metadata?.filename,
      project: entry.metadata?.project,
      size: entry.size,
      url: entry.uploadUrl,
      entry,
    }));
  }
  const own = new Map(kept.map((entry) => [idOf(entry.uploadUrl), entry]));
  return held.map((upload) => ({
    name: upload.filename,
    project: upload.project,
    size: upload.size_bytes,
    sent: upload.offset_bytes,
    until: new Date(upload.expires_at),
    url: own.get(upload.id)?.uploadUrl,
    id: upload.id,
    entry: own.get(upload.id) ?? null,
  }));
}
