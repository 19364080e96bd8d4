import { execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"

/** Writes files by their paths, with the directories that they need. */
export const writeFiles = (root: string, files: Readonly<Record<string, string>>): void => {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
}

/** Makes files readable for every user, whatever the umask of the tests is. */
export const makeReadable = (root: string): void => {
  execFileSync("chmod", ["-R", "a+rX", root])
}
