import { execFile } from "node:child_process"
import { promisify } from "node:util"

const run = promisify(execFile)

/** Enters each directory as it makes it: a path to the bottom would be too long for the kernel. */
const NEST = `
const { mkdirSync } = require("node:fs")
const [directory, levels, nameBytes] = process.argv.slice(1)
process.chdir(directory)
const name = "n".repeat(Number(nameBytes))
for (let level = 0; level < Number(levels); level++) {
  mkdirSync(name)
  process.chdir(name)
}
`

const SPREAD = `
const { closeSync, mkdirSync, openSync } = require("node:fs")
const [directory, count, nameBytes, kind] = process.argv.slice(1)
process.chdir(directory)
for (let at = 0; at < Number(count); at++) {
  const name = String(at).padStart(Number(nameBytes), "n")
  if (kind === "directory") mkdirSync(name)
  else closeSync(openSync(name, "wx"))
}
`

/** Makes nested directories. */
export const nest = async (directory: string, levels: number, nameBytes: number): Promise<void> => {
  await run(process.execPath, ["-e", NEST, directory, String(levels), String(nameBytes)])
}

/** Makes many entries in one directory. */
export const spread = async (
  directory: string,
  count: number,
  nameBytes: number,
  kind: "file" | "directory",
): Promise<void> => {
  await run(process.execPath, ["-e", SPREAD, directory, String(count), String(nameBytes), kind])
}

/** Removes trees that Node's own removal cannot: those deeper than a path is long. */
export const removeDeep = async (directory: string): Promise<void> => {
  await run("rm", ["-rf", "--", directory])
}
