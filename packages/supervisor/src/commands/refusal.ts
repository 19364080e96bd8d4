import { existsSync } from "node:fs"
import { resolve } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { Launch } from "../processes/launch.ts"

/** Turns a failed start into an error that tells the caller what to change. Other failures stay as they are. */
export const refusal = (thrown: unknown, { command: [program], cwd, env }: Launch): unknown => {
  if (!(thrown instanceof BerthError) || thrown.code !== "process.start_failed") return thrown
  const { code, isDirectoryMissing } = thrown.details
  const options = { details: { command: program, cwd }, cause: thrown }
  if (isDirectoryMissing)
    return new BerthError("process.no_directory", `there is no directory ${cwd}`, options)
  switch (code) {
    case "ENOENT":
    case "ENOTDIR":
      return new BerthError("process.not_found", missing(program, cwd, env.PATH ?? ""), options)
    case "EACCES":
    case "EPERM":
      return new BerthError("process.denied", `${program} may not be run in ${cwd}`, options)
    case "E2BIG":
      return new BerthError("input.too_large", "the command line is longer than is possible", {
        cause: thrown,
      })
    default:
      return thrown
  }
}

/** Says what is missing. The kernel reports the same for a script whose interpreter is missing. */
const missing = (program: string, cwd: string, path: string): string => {
  if (!program.includes("/")) return `there is no program ${program} in ${path}`
  return existsSync(resolve(cwd, program))
    ? `${program} needs a program that is not there to run it`
    : `there is no program ${program}`
}
