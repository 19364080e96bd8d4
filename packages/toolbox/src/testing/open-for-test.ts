import { existsSync, lstatSync, mkdtempSync, readdirSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"
import { removeToolbox } from "../remove.ts"
import { openToolboxes, type ToolboxesOptions } from "../store.ts"
import { makeInputs } from "./fake-inputs.ts"

/**
 * The place of test directories, in memory if possible: each build flushes its file system, with all that others write
 * there.
 */
const PLACE = existsSync("/dev/shm") ? "/dev/shm" : tmpdir()

/** Makes a directory for the running test, removed after it. */
export const makeDirectory = (place = PLACE): string => {
  const directory = mkdtempSync(join(place, "berth-toolbox-"))
  onTestFinished(() => removeToolbox(directory))
  return directory
}

/** Opens toolboxes in a directory of the running test, with small inputs beside them. */
export const openForTest = (options: Partial<ToolboxesOptions> = {}) => {
  const directory = makeDirectory()
  const root = join(directory, "toolbox")
  const inputsDirectory = join(directory, "inputs")
  const inputs = makeInputs(inputsDirectory)
  const signal: AbortSignal = new AbortController().signal
  const toolboxes = openToolboxes({ root, arch: "x64", ...options })
  return { root, inputsDirectory, inputs, toolboxes, signal }
}

/** Every name in the root except the seals': leftovers show here. */
export const namesLeft = (root: string): string[] =>
  readdirSync(root).filter((name) => name !== "seals")

export const modeOf = (path: string): string => (lstatSync(path).mode & 0o7777).toString(8)
