import { watch } from "node:fs"
import { dirname } from "node:path"
import { untilOneSucceeds, type Wake } from "./attempts.ts"
import { accepts } from "./connect.ts"
import type { Readiness } from "./readiness.ts"

/** Ready when a unix socket accepts connections; looked at whenever its directory changes. */
export const readyOnUnixSocket = (path: string): Readiness => ({
  description: `nothing accepts connections on ${path}`,
  wait: (_, signal) =>
    untilOneSucceeds((limit) => accepts({ path }, limit), signal, onChangeOf(dirname(path))),
})

/** Without events where the directory does not exist yet: the steady pace does then. */
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
