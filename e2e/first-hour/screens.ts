import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const SCREENS = join(import.meta.dirname, "../../node_modules/.cache/screens")

/** Keeps the text of a screen where people find it after a run of the tests. */
export const keepScreen = (name: string, text: string): void => {
  mkdirSync(SCREENS, { recursive: true })
  writeFileSync(join(SCREENS, `${name}.txt`), text)
}
