import { readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"

/** Processes with the secret in their arguments or environment, which every process of their user can read. */
export const processesWith = (secret: string) =>
  readdirSync("/proc")
    .filter((pid) => /^\d+$/.test(pid))
    .filter((pid) =>
      ["cmdline", "environ"].some((name) => {
        try {
          return readFileSync(`/proc/${pid}/${name}`, "latin1").includes(secret)
        } catch {
          return false
        }
      }),
    )

/** Files below a directory in which the secret stands. */
export const filesWith = (directory: string, secret: string) =>
  readdirSync(directory, { recursive: true, encoding: "utf8" })
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile() && readFileSync(path, "latin1").includes(secret))
