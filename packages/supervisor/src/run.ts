import { BerthError, toWireError } from "@berth/protocol/errors"
import { systemClock } from "./processes/clock.ts"
import { type SuperviseOptions, supervise } from "./supervise.ts"

/** The whole life of this process: signals in, the exit status out. */
export const run = (
  options: Omit<SuperviseOptions, "clock" | "stop" | "hurry" | "onFault">,
): void => {
  const stop = new AbortController()
  const hurry = new AbortController()
  /** Stops in order at the first signal, and quickly at the second. Further ones change nothing. */
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) hurry.abort()
    else stop.abort(new BerthError("cancelled", `the sandbox was asked to stop (${signal})`))
  }
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, onSignal)

  // Ignores write errors of the log, as its reader may be gone. Reporting one would fail as well, without end.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {})
  // A defect in one part must not end the agent's work.
  process.on("uncaughtException", report)
  process.on("unhandledRejection", report)

  const parts = {
    clock: systemClock,
    stop: stop.signal,
    hurry: hurry.signal,
    onFault: report,
  }
  supervise({ ...options, ...parts }).then(exit, (thrown: unknown) => {
    report(thrown)
    exit(1)
  })
}

/** Writes an error to the sandbox's log. Errors never contain secrets. */
const report = (error: unknown): void => {
  const { code, message } = toWireError(error)
  process.stderr.write(`${JSON.stringify({ at: new Date(), code, message })}\n`)
}

/** Exits at once: everything has ended by now, and a forgotten timer or socket must not keep the sandbox alive. */
const exit = (status: number): void => {
  process.exit(status)
}
