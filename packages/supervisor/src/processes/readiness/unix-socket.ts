import { watch } from "node:fs"
import { dirname } from "node:path"
import { untilOneSucceeds, type Wake } from "./attempts.ts"
import { accepts } from "./connect.ts"
import type { Readiness } from "./readiness.ts"

/** Ready when a unix socket accepts connections. Attempts are also made whenever its directory changes. */
export const readyOnUnixSocket = (path: string): Readiness => ({
  description: `nothing accepts connections on ${path}`,
  wait: (_, signal) =>
    untilOneSucceeds((limit) => accepts({ path }, limit), signal, onChangeOf(dirname(path))),
})

/** Watches the directory. If it does not exist yet, only the attempts at a steady pace remain. */
const onChangeOf =
  (directory: string): Wake =>
  (attemptNow) => {
    try {
      const watcher = watch(directory, attemptNow)
      watcher.on("error", () => watcher.close())
      return () => watcher.close()
    } catch {
      return () => {}
    }
  }
