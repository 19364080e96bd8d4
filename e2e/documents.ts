import { globSync, readFileSync } from "node:fs"
import path from "node:path"

export const ROOT = path.join(import.meta.dirname, "..")

/** The text of a file of the project. */
export const read = (file: string): string => readFileSync(path.join(ROOT, file), "utf8")

export const matches = (text: string, pattern: RegExp): string[] =>
  [...text.matchAll(pattern)].map(([, match = ""]) => match)

/** Every file and folder of the project that somebody wrote, from its root on. */
export const PROJECT: ReadonlySet<string> = new Set(
  globSync(["*", "{packages,e2e,bench,scripts,docs,bin}/**"], {
    cwd: ROOT,
    exclude: (name) => /(?:^|\/)(?:node_modules|dist)$/.test(name),
  }),
)

export const DOCUMENTS: readonly string[] = [...PROJECT].filter((name) =>
  /^(?:docs\/(?:design\/)?)?[^/]+\.md$/.test(name),
)

/** All sources and settings, one after another. */
export const SOURCES: string = [...PROJECT]
  .filter((name) => /^(?:packages|e2e|bench|scripts)\/.*\.ts$|^tsconfig.*\.json$/.test(name))
  .map(read)
  .join("\n")

/** The names between backticks in a document, outside of its blocks. */
export const namesIn = (document: string): string[] =>
  matches(read(document).replaceAll(/^```.*?^```$/gms, ""), /`([^`\n]+)`/g)
