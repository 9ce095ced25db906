// Bundles the pages' own sources and the locked packages into dist/dlh (ES modules, lazy chunks, no CDN).
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliCompress, gzip } from "node:zlib";
import * as esbuild from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const outdir = path.join(here, "dist", "dlh");
const watch = process.argv.includes("--watch");

const common = {
  outdir,
  bundle: true,
  minify: !watch,
  sourcemap: false,
  target: ["es2022"],
  logLevel: "info",
  legalComments: "linked",
  absWorkingDir: here,
};

const builds = [
  {
    ...common,
    entryPoints: { app: "src/app.js" },
    format: "esm",
    splitting: true,
    chunkNames: "chunks/[name]-[hash]",
  },
  { ...common, entryPoints: { theme: "src/theme.js" }, format: "iife" },
  { ...common, entryPoints: { style: "src/styles/style.css", editor: "src/styles/editor.css" } },
];

// The portal serves `app.js.br` or `app.js.gz` in place of `app.js` to browsers that take it.
const PACKERS = { br: promisify(brotliCompress), gz: promisify(gzip) };

async function pack(folder) {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!/\.(js|css|svg)$/.test(entry.name)) continue;
    const file = path.join(entry.parentPath ?? entry.path, entry.name);
    const body = await readFile(file);
    for (const [ending, packer] of Object.entries(PACKERS)) await writeFile(`${file}.${ending}`, await packer(body));
  }
}

await rm(outdir, { recursive: true, force: true });
await mkdir(outdir, { recursive: true });
await copyFile(path.join(here, "src", "favicon.svg"), path.join(outdir, "favicon.svg"));
if (watch) {
  for (const options of builds) await (await esbuild.context(options)).watch();
} else {
  await Promise.all(builds.map((options) => esbuild.build(options)));
  await pack(outdir);
}
