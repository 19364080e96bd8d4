import { execFileSync } from "node:child_process"
import { onTestFinished } from "vitest"

/** Makes a path that is longer than the kernel takes: 20 names of 255 bytes. */
const PLANT = `
const name = "d".repeat(255)
for (let depth = 0; depth < 20; depth++) {
  require("node:fs").mkdirSync(name)
  process.chdir(name)
}
require("node:fs").writeFileSync("leaf", "")`

/** Puts a tree into a directory whose end no path reaches. */
export const plantDeepTree = (directory: string): void => {
  execFileSync(process.execPath, ["-e", PLANT], { cwd: directory })
}

/** Keeps everyone, including root, from deleting a file until the test ends or `release` is called. */
export const pin = (file: string) => {
  execFileSync("chattr", ["+i", file])
  let isPinned = true
  const release = () => {
    if (isPinned) execFileSync("chattr", ["-i", file])
    isPinned = false
  }
  onTestFinished(release)
  return release
}
