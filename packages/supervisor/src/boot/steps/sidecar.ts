import { join } from "node:path"
import { BUILTIN_SIDECARS, type BuiltinSidecar } from "@berth/protocol/builtin-sidecars"
import { BerthError } from "@berth/protocol/errors"
import type { SidecarSpec } from "@berth/protocol/workspace"
import { carryEnvironment } from "../../processes/carried-environment.ts"
import type { Clock } from "../../processes/clock.ts"
import type { Launch } from "../../processes/launch.ts"
import { OWN_PROGRAM_FLAGS } from "../../processes/own-program.ts"
import { accepts } from "../../processes/readiness/connect.ts"
import { readyOnHttp } from "../../processes/readiness/http.ts"
import { readyOnLine } from "../../processes/readiness/line.ts"
import { LOOPBACK, readyOnPort } from "../../processes/readiness/port.ts"
import type { Readiness } from "../../processes/readiness/readiness.ts"
import { readyOnceUp } from "../../processes/readiness/started.ts"
import type { BootContext } from "../context.ts"
import type { Step } from "../step.ts"

/** Time limit, longer than it takes to give up a sidecar that never becomes ready: that reason says more. */
export const SIDECAR_LIMIT_MS = 10 * 60_000

/**
 * Starts a sidecar and waits until it is ready. The set of processes keeps it running: a sidecar that crashes is
 * restarted, one that keeps failing is given up. Only a required one holds up the boot.
 */
export const sidecar = (spec: SidecarSpec, needs: readonly string[]): Step<BootContext> => ({
  name: `sidecar-${spec.name}`,
  needs,
  required: spec.required,
  timeoutMs: SIDECAR_LIMIT_MS,
  run: async (context, signal, tell) => {
    const { places, clock, processes } = context
    const { name, port } = spec
    const beganAtMs = clock.nowMs()
    if (port !== undefined) await requireFree(port, signal)
    const process = processes.start({
      name: `sidecar ${name}`,
      ...launchOf(spec, context),
      readiness: readinessOf(spec, clock),
      log: { path: join(places.logs, `sidecar-${name}.log`) },
    })
    tell.progress("started, and not ready yet")
    try {
      await process.ready(signal)
    } catch (thrown) {
      tell.output(Buffer.from(process.lastOutput()))
      throw thrown
    }
    const { starts } = process.status()
    const readyMs = Math.round(clock.nowMs() - beganAtMs)
    return {
      did: `ready after ${readyMs} ms${starts > 1 ? `, at start ${starts}` : ""}`,
      facts: { readyMs, starts, ...(port !== undefined && { port }) },
    }
  },
})

/** Throws if the port is in use, as its listener would be mistaken for the sidecar. */
const requireFree = async (port: number, signal: AbortSignal): Promise<void> => {
  if (!(await accepts({ host: LOOPBACK, port }, signal).catch(() => false))) return
  throw new BerthError("process.start_failed", `port ${port} is in use already`, {
    details: { port },
  })
}

const launchOf = (
  { command = [], builtin, port }: SidecarSpec,
  { places, environment, user }: BootContext,
): Launch => {
  const told = port === undefined ? {} : { PORT: String(port) }
  if (builtin !== undefined) return launchOwn(builtin, told, { places, environment, user })
  return {
    command: command as [string, ...string[]],
    env: { ...environment, ...told },
    cwd: places.workspace,
    user,
  }
}

/**
 * Launches a program of ours: variables that the user sets reach the shells that it starts, and not the program itself.
 */
const launchOwn = (
  builtin: BuiltinSidecar,
  told: Readonly<Record<string, string>>,
  { places, environment, user }: Pick<BootContext, "places" | "environment" | "user">,
): Launch => {
  const [node, ...words] = BUILTIN_SIDECARS[builtin].map((path) => join(places.toolbox, path))
  const ids = user === undefined ? [] : [JSON.stringify({ uid: user.uid, gid: user.gid })]
  return {
    command: [node as string, ...OWN_PROGRAM_FLAGS, ...words, places.workspace, ...ids],
    env: { ...carryEnvironment(environment), ...told },
    cwd: "/",
    user,
    becomesUser: true,
  }
}

const readinessOf = ({ ready, port }: SidecarSpec, clock: Clock): Readiness => {
  if (ready !== undefined && "line" in ready) return readyOnLine(containing(ready.line))
  if (port === undefined) return readyOnceUp(clock)
  return ready === undefined ? readyOnPort(port) : readyOnHttp({ port, path: ready.http })
}

/** A pattern that matches the user's text literally. */
const containing = (words: string): RegExp => new RegExp(RegExp.escape(words))
