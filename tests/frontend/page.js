// What the scripts look for of a page: an address, a theme.

export function page({ address = "https://harness.example.org/", theme = "light" } = {}) {
  const location = new URL(address);
  globalThis.document = {
    documentElement: { dataset: { bsTheme: theme } },
    getElementById: () => null,
    querySelector: () => null,
  };
  globalThis.window = {
    location,
    history: {
      state: null,
      replaceState: (_state, _title, url) => {
        location.href = url.href;
      },
    },
  };
  return location;
}
