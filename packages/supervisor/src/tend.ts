import { mkdirSync } from "node:fs"
import { join } from "node:path"
import type { BootEvent, BootTrace } from "@berth/protocol/boot"
import type { BootPlan } from "@berth/protocol/boot-plan"
import { SHARED } from "@berth/protocol/shared-directory"
import { boot } from "./boot/boot.ts"
import type { BootContext, Places } from "./boot/context.ts"
import { buildGraph } from "./boot/graph.ts"
import { stepsOf } from "./boot/modes.ts"
import { TraceFile } from "./boot/trace-file.ts"
import { serveCredentials } from "./bridge/credentials.ts"
import { CarriedPorts } from "./bridge/host-ports.ts"
import { hostRepos } from "./bridge/host-repos.ts"
import { Inside } from "./bridge/inside.ts"
import { Upgrades } from "./bridge/upgrades.ts"
import { writeCertificates } from "./certificates.ts"
import { checkPlan } from "./check-plan.ts"
import { Dispatch } from "./features/dispatch.ts"
import { loadFeatures } from "./load-features.ts"
import { idOf, listProcesses } from "./processes/tree/proc.ts"
import { Ending } from "./tend/ending.ts"
import type { TendOptions } from "./tend/options.ts"
import { statusOf, staysUp } from "./tend/outcome.ts"
import { openParts, type Parts } from "./tend/parts.ts"

/** The events after which the trace is saved. */
const TRACED: ReadonlySet<BootEvent["type"]> = new Set([
  ...(["boot.step.started", "boot.step.ended", "boot.ready", "boot.ending"] as const),
])

/**
 * Runs a sandbox whose socket is open: the boot, the time in use, the end. Resolves with the exit status, when nothing
 * runs any more.
 */
export const tend = async (options: TendOptions): Promise<number> => {
  const { shared, places, stop, clock, user, credentials, bridge } = options
  const plan = checkPlan(options.plan, join(shared, SHARED.plan))
  mkdirSync(places.logs, { mode: 0o700, recursive: true })
  const parts = openParts(options, plan)
  const started: Started = { processes: undefined }
  const features = openInside(options, plan, parts, started)
  await warnOfPlan(options, plan, parts)

  const { hostRequests, reports, prompts } = parts
  const helper = serveCredentials({ path: credentials, user, hostRequests })
  const bridgeIsUp = Promise.all([bridge, helper, prompts])
  // A failure is reported by the step that waits for it; a build has none.
  bridgeIsUp.catch(() => {})
  const hostPorts = new CarriedPorts({ hostRequests, clock, warn: reports.warn })
  const ending = new Ending({
    ...options,
    ...parts,
    hostPorts,
    features,
    servers: [helper, bridge],
  })
  const isServed = bridgeIsUp.then(
    () => true,
    () => false,
  )
  const context: BootContext = {
    plan,
    places,
    user,
    environment: parts.environment,
    clock,
    pipes: parts.pipes,
    processes: parts.processes,
    agent: parts.agent,
    bridge: bridgeIsUp,
    hostRepos: hostRepos(hostRequests),
    hostPorts,
  }
  const trace = await runBoot(options, context, parts, {
    started,
    beforeStop: async (ended) =>
      await ((await staysUp(ended, isServed)) ? ending.endPrompts() : ending.endUses()),
  })
  if (await staysUp(trace, isServed)) {
    if (trace.outcome === "failed") await ending.endHidden()
    started.processes ??= runningNow()
    await fired(stop)
  }
  await ending.endAll()
  return statusOf(trace)
}

/** The processes that the boot has started; undefined while it goes on. */
interface Started {
  processes: ReadonlySet<string> | undefined
}

const runningNow = (): ReadonlySet<string> => new Set(listProcesses().entries.map(idOf))

/** Opens the calls of clients. Returns the features, which end before the sandbox does. */
const openInside = (
  { clock, places, user, onFault, open }: TendOptions,
  plan: BootPlan,
  { pipes, processes, environment, tracker, hostRequests, journal, prompts }: Parts,
  started: Started,
): Dispatch => {
  const features = new Dispatch(
    loadFeatures(
      { clock, pipes, processes, places, onlyRepo: onlyRepoOf(plan, places), user, environment },
      { tracker, promptsKnown: prompts, bootProcesses: () => started.processes },
    ),
  )
  const upgrades = new Upgrades({ sandbox: plan.sandbox, journal, prompts, hostRequests, onFault })
  open(new Inside({ upgrades, hostRequests, features }))
  return features
}

/** Writes the certificates before the first program that could look for them, and warns of what is lacking. */
const warnOfPlan = async (
  { certificates }: TendOptions,
  plan: BootPlan,
  { reports }: Parts,
): Promise<void> => {
  for (const message of plan.warnings ?? []) reports.warn(message)
  await writeCertificates(plan.certificates ?? [], certificates).catch((thrown: Error) =>
    reports.warn(`the host's certificates cannot be written to ${certificates}: ${thrown.message}`),
  )
}

interface BootUse {
  /** Set when the boot has come to ready. */
  readonly started: Started
  /** Called before the processes of a boot that has not succeeded are ended. */
  readonly beforeStop: (trace: BootTrace) => Promise<void>
}

/** Runs the boot, tells of it, and opens the gate for prompts when it is ready. Resolves with its trace. */
const runBoot = async (
  { clock, shared, stop, hurry, startedAt, standing, onFault }: TendOptions,
  context: BootContext,
  { processes, prompts, reports }: Parts,
  { started, beforeStop }: BootUse,
): Promise<BootTrace> => {
  const { mode } = context.plan
  const traceFile = new TraceFile(join(shared, SHARED.trace))
  const saveTrace = (trace: BootTrace) => traceFile.save(trace).catch(onFault)
  const onEvent = (event: BootEvent) => {
    reports.tell(event)
    // Delayed, because the first steps may end before `running` is assigned.
    if (TRACED.has(event.type)) queueMicrotask(() => void saveTrace(running.trace()))
  }
  const running = boot({
    mode,
    graph: buildGraph(stepsOf(context)),
    context,
    clock,
    startedAt,
    signal: stop,
    processes,
    stop: { hurry },
    onEvent,
    beforeStop,
  })
  standing.trace = () => running.trace()
  void running.ready.then(async (ready) => {
    standing.ready = ready
    if (!ready || mode === "build") return
    const opened = await prompts
    standing.promptCount = () => opened.count
    started.processes = runningNow()
    opened.open()
  })
  const { trace } = await running.result
  await saveTrace(trace)
  return trace
}

const onlyRepoOf = ({ repos }: BootPlan, { workspace }: Places): string | undefined => {
  const [first, ...others] = repos
  return first === undefined || others.length > 0 ? undefined : join(workspace, first.directory)
}

const fired = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve()
    signal.addEventListener("abort", () => resolve(), { once: true })
  })
