import { accessSync, constants, statSync } from "node:fs"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"

/** Throws if the program does not exist, so that no caller waits for a start that can never succeed. */
export const requireProgram = (program: string, path: string): void => {
  const places = program.includes("/")
    ? [program]
    : path.split(":").map((directory) => join(directory, program))
  if (!places.some(isProgram))
    throw new BerthError("agent.not_installed", `the sandbox has no program ${program}`, {
      details: { program, ...(program.includes("/") ? {} : { path }) },
    })
}

const isProgram = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}
