import { mkdirSync } from "node:fs"
import { BerthError, toWireError } from "@berth/protocol/errors"
import { systemClock } from "./processes/clock.ts"
import { type SuperviseOptions, supervise } from "./supervise.ts"

/** The whole life of this process: signals in, the exit status out. */
export const run = (
  options: Omit<SuperviseOptions, "clock" | "stop" | "hurry" | "onFault">,
): void => {
  const stop = new AbortController()
  const hurry = new AbortController()
  /** The first asks for an orderly end, the second for a quick one; more change nothing. */
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) hurry.abort()
    else stop.abort(new BerthError("cancelled", `the sandbox was asked to stop (${signal})`))
  }
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, onSignal)

  // Whoever keeps the log may be gone. To report that would fail as well, and be reported, without end.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {})
  // A defect in one corner must not take the agent's work with it.
  process.on("uncaughtException", report)
  process.on("unhandledRejection", report)

  const live = async (): Promise<number> => {
    mkdirSync(options.places.logs, { mode: 0o700, recursive: true })
    return await supervise({
      ...options,
      clock: systemClock,
      stop: stop.signal,
      hurry: hurry.signal,
      onFault: report,
    })
  }
  live().then(exit, (thrown: unknown) => {
    report(thrown)
    exit(1)
  })
}

/** The sandbox's log keeps it. Errors never hold secrets. */
const report = (error: unknown): void => {
  const { code, message } = toWireError(error)
  process.stderr.write(`${JSON.stringify({ at: new Date(), code, message })}\n`)
}

/** Everything is ended by now; a timer or a socket that was forgotten must not keep the sandbox alive. */
const exit = (status: number): void => {
  process.exit(status)
}
