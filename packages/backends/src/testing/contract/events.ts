import type { SandboxId } from "@berth/protocol/ids"
import { expect } from "vitest"
import type { Backend, BackendEvent, ObservedSandbox } from "../../backend.ts"

/** Gathers a backend's events from now on. */
export const collect = (backend: Backend) => {
  const stop = new AbortController()
  const seen: BackendEvent[] = []
  const events = backend.watch(stop.signal)
  const done = (async () => {
    for await (const event of events) seen.push(event)
  })()
  return {
    seen,
    async [Symbol.asyncDispose]() {
      stop.abort()
      await done
    },
  }
}

/** Waits for a sandbox's end by the backend's events. */
export const exitsOf = (backend: Backend) => {
  const events = collect(backend)
  return {
    async of(sandbox: SandboxId) {
      let exit: ObservedSandbox["exit"]
      await expect
        .poll(
          () => {
            for (const event of events.seen) {
              if (event.kind === "exited" && event.sandbox === sandbox) exit = event.exit
            }
            return exit
          },
          { timeout: 20_000, interval: 5 },
        )
        .toBeDefined()
      if (exit === undefined) throw new Error("the sandbox did not end")
      return exit
    },
    [Symbol.asyncDispose]: () => events[Symbol.asyncDispose](),
  }
}

/** Waits until a sandbox has ended, by looking at it. */
export const exitOnce = async (backend: Backend, sandbox: SandboxId) => {
  await expect
    .poll(async () => (await backend.inspect(sandbox))?.state, { timeout: 10_000 })
    .toBe("exited")
  const exit = (await backend.inspect(sandbox))?.exit
  if (exit === undefined) throw new Error("an ended sandbox tells its exit")
  return exit
}
