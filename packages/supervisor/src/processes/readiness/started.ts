import type { Readiness } from "./readiness.ts"

/** For a process with nothing to wait for: it is ready once it runs. */
export const readyOnceStarted: Readiness = {
  description: "it did not start",
  wait: async () => {},
}
