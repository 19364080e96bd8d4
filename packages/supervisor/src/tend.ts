import { mkdirSync } from "node:fs"
import { join } from "node:path"
import type { BootEvent, BootTrace } from "@berth/protocol/boot"
import type { BootPlan } from "@berth/protocol/boot-plan"
import type { EventBody } from "@berth/protocol/event"
import { SHARED } from "@berth/protocol/shared-directory"
import { boot } from "./boot/boot.ts"
import type { BootContext, Places } from "./boot/context.ts"
import { buildGraph } from "./boot/graph.ts"
import { stepsOf } from "./boot/modes.ts"
import { TraceFile } from "./boot/trace-file.ts"
import { Asks } from "./bridge/asks.ts"
import { serveCredentials } from "./bridge/credentials.ts"
import { gitEnvironment } from "./bridge/git-environment.ts"
import { CarriedPorts } from "./bridge/host-ports.ts"
import { hostRepos } from "./bridge/host-repos.ts"
import { Inside } from "./bridge/inside.ts"
import { openPrompts, type Prompts } from "./bridge/prompts.ts"
import type { BridgeServer } from "./bridge/serve.ts"
import { Upgrades } from "./bridge/upgrades.ts"
import { writeCertificates } from "./certificates.ts"
import { checkPlan } from "./check-plan.ts"
import { chooseAgent } from "./choose-agent.ts"
import { Dispatch } from "./features/dispatch.ts"
import { Uses } from "./features/uses.ts"
import { type Journal, openJournal } from "./journal/journal.ts"
import { keepTrying } from "./journal/keep-trying.ts"
import { openLedger } from "./journal/ledger.ts"
import { loadFeatures } from "./load-features.ts"
import type { PlanHead } from "./plan.ts"
import type { Clock } from "./processes/clock.ts"
import { Pipes } from "./processes/output/pipes.ts"
import { ProcessSet } from "./processes/set.ts"
import type { ProcessEvent } from "./processes/spec.ts"
import { findHidden } from "./processes/tree/left-processes.ts"
import { ownPidNamespace } from "./processes/tree/pid-namespace.ts"
import { idOf, listProcesses } from "./processes/tree/proc.ts"
import type { User } from "./processes/user.ts"
import { userEnvironment } from "./user-environment.ts"

/** The parts and places of a sandbox. */
export interface SandboxParts {
  readonly clock: Clock
  /** The directory that is shared with the server. */
  readonly link: string
  readonly places: Places
  /** The socket on which git asks for credentials, in a directory that the user may enter. */
  readonly credentials: string
  /** The directory in which the user's programs find the host's certificate authorities. */
  readonly certificates: string
  /** The user that everything except the supervisor runs as. */
  readonly user: User & { readonly name: string }
  /** Stops the supervisor in order, with everything that it started. */
  readonly stop: AbortSignal
  /** Cuts the graces of processes and of the server short. */
  readonly hurry: AbortSignal
  /** Called with an error that cannot be reported elsewhere. */
  readonly onFault: (error: unknown) => void
}

/** What the socket tells of a sandbox. */
export interface Standing {
  ready: boolean
  promptCount: () => number
  trace: () => BootTrace
}

export interface TendOptions extends SandboxParts {
  /** The plan as it was read. */
  readonly plan: PlanHead
  readonly startedAt: Date
  /** Updated as the sandbox boots. */
  readonly standing: Standing
  /** The server on the sandbox's socket. Rejects if it cannot listen. */
  readonly bridge: Promise<BridgeServer>
  /** Called with the parts that answer the calls of clients. */
  readonly open: (inside: Inside) => void
}

/** Time for the server, at the end, to acknowledge the last events. */
export const LAST_WORDS_MS = 3_000

/** The events after which the trace is saved. */
const TRACED: ReadonlySet<BootEvent["type"]> = new Set([
  ...(["boot.step.started", "boot.step.ended", "boot.ready", "boot.ending"] as const),
])

/** The exit statuses. A build that was cut short never looks like one that is done. */
export const EXIT = { ok: 0, failed: 1, stoppedWhileBooting: 128 + 15 } as const

/**
 * Runs a sandbox whose socket is open: the boot, the time in use, the end. Resolves with the exit status, when nothing
 * runs any more.
 */
export const tend = async (options: TendOptions): Promise<number> => {
  const { startedAt, standing, bridge, open } = options
  const { clock, link, places, credentials, certificates, user, stop, hurry, onFault } = options
  const plan = checkPlan(options.plan, join(link, SHARED.plan))
  mkdirSync(places.logs, { mode: 0o700, recursive: true })

  const journal = openJournal({ directory: join(link, SHARED.journal) })
  const ledger = openLedger(join(link, SHARED.ledger))
  const tell = (body: EventBody): void => {
    journal.then((opened) => append(opened, body)).catch(onFault)
  }
  const warn = (message: string) => tell({ type: "warning", message })
  const pipes = new Pipes(places.logs)
  const processes = new ProcessSet({ clock, pipes, onEvent: (event) => tellOf(event, tell) })
  const environment = userEnvironment({
    home: places.home,
    name: user.name,
    toolbox: places.toolbox,
    git: gitEnvironment({
      node: join(places.toolbox, "bin/node"),
      helper: join(places.toolbox, "supervisor/credential-helper.cjs"),
      socket: credentials,
    }),
    own: plan.environment,
  })
  const uses = new Uses()
  const asks = new Asks()
  const agent = chooseAgent(plan.agent, {
    clock,
    pipes,
    processes,
    places,
    user,
    environment,
    askForKeys: async (signal) => (await asks.ask({ kind: "keys" }, signal)).keys,
  })
  const prompts: Promise<Prompts> = Promise.all([journal, ledger]).then(([journal, ledger]) =>
    openPrompts({
      journal,
      ledger,
      signal: stop,
      onChange: (ids) => uses.setPrompts(ids),
      run: async (start, signal) => {
        const { givenUp } = await prompts
        const say = async (body: EventBody) => {
          await keepTrying(() => journal.append(body, { signal: givenUp }), givenUp)
        }
        return agent.prompt(start, say, signal)
      },
      answer: (prompt, answer) => agent.answer(prompt, answer),
    }),
  )

  let bootProcesses: ReadonlySet<string> | undefined
  const features = new Dispatch(
    loadFeatures(
      { clock, pipes, processes, places, onlyRepo: onlyRepoOf(plan, places), user, environment },
      { uses, promptsKnown: prompts, bootProcesses: () => bootProcesses },
    ),
  )
  const upgrades = new Upgrades({ sandbox: plan.sandbox, journal, prompts, asks, onFault })
  open(new Inside({ upgrades, asks, features }))
  for (const message of plan.warnings ?? []) warn(message)
  // Written before the first program that could look for them.
  await writeCertificates(plan.certificates ?? [], certificates).catch((thrown: Error) =>
    warn(`the host's certificates cannot be written to ${certificates}: ${thrown.message}`),
  )

  const helper = serveCredentials({ path: credentials, user, asks })
  const bridgeIsUp = Promise.all([bridge, helper, prompts])
  // A failure is reported by the step that waits for it; a build has none.
  bridgeIsUp.catch(() => {})
  const hostPorts = new CarriedPorts({ asks, clock, warn })
  const context: BootContext = {
    plan,
    places,
    user,
    environment,
    clock,
    pipes,
    processes,
    agent,
    bridge: bridgeIsUp,
    hostRepos: hostRepos(asks),
    hostPorts,
  }
  /** Prompts report their end before their processes are ended. */
  const endPrompts = () => prompts.then((opened) => opened.close(), onFault)
  const endUses = async () => {
    hostPorts.close()
    await Promise.all([endPrompts(), features.close()])
  }
  /** Whether a server can connect: without that, nobody could look at a failed sandbox. */
  const isServed = bridgeIsUp.then(
    () => true,
    () => false,
  )
  /**
   * Whether the sandbox keeps serving clients: when it is ready, and when its boot failed and people may look into it.
   */
  const staysUp = async ({ outcome }: BootTrace): Promise<boolean> =>
    plan.mode !== "build" && (outcome === "succeeded" || (outcome === "failed" && (await isServed)))
  /** Ends processes of the boot that hid their origin. Processes of commands and terminals go on. */
  const endRest = async () => {
    const rest = ownPidNamespace()
    if (rest === undefined) return
    const left = new Set((await findHidden(user)).map(idOf))
    const find = async () => (await rest.find()).filter((entry) => left.has(idOf(entry)))
    await processes.stop({ hurry, rest: { ...rest, find } })
  }
  const traceFile = new TraceFile(join(link, SHARED.trace))
  const saveTrace = (trace: BootTrace) => traceFile.save(trace).catch(onFault)
  const onEvent = (event: BootEvent) => {
    tell(event)
    // Delayed, because the first steps may end before `running` is assigned.
    if (TRACED.has(event.type)) queueMicrotask(() => void saveTrace(running.trace()))
  }
  const running = boot({
    mode: plan.mode,
    graph: buildGraph(stepsOf(context)),
    context,
    clock,
    startedAt,
    signal: stop,
    processes,
    stop: { hurry },
    onEvent,
    beforeStop: async (trace) => await ((await staysUp(trace)) ? endPrompts() : endUses()),
  })
  standing.trace = () => running.trace()
  void running.ready.then(async (ready) => {
    standing.ready = ready
    if (!ready || plan.mode === "build") return
    const opened = await prompts
    standing.promptCount = () => opened.count
    bootProcesses = new Set(listProcesses().entries.map(idOf))
    opened.open()
  })

  const { trace } = await running.result
  await saveTrace(trace)
  if (await staysUp(trace)) {
    if (trace.outcome === "failed") await endRest()
    bootProcesses ??= new Set(listProcesses().entries.map(idOf))
    await fired(stop)
  }

  await endUses()
  const rest = ownPidNamespace()
  await processes.stop({ hurry, ...(rest && { rest }) })
  const tooLong = AbortSignal.any([hurry, AbortSignal.timeout(LAST_WORDS_MS)])
  await journal.then((opened) => opened.allAcknowledged(tooLong)).catch(() => {})
  for (const server of [helper, bridge]) await server.then((opened) => opened.close(), onFault)
  await Promise.allSettled([journal, ledger].map(async (file) => (await file).close()))
  pipes.close()
  return statusOf(trace)
}

const onlyRepoOf = ({ repos }: BootPlan, { workspace }: Places): string | undefined => {
  const [first, ...others] = repos
  return first === undefined || others.length > 0 ? undefined : join(workspace, first.directory)
}

/** The exit status. A sandbox that was ready has succeeded, even if an optional step did not end. */
const statusOf = ({ mode, outcome, readyAtMs }: BootTrace): number => {
  if (
    outcome === "succeeded" ||
    (outcome === "cancelled" && readyAtMs !== null && mode !== "build")
  )
    return EXIT.ok
  return outcome === "cancelled" ? EXIT.stoppedWhileBooting : EXIT.failed
}

/** Appends an event. Live output of a boot does not wait for room, as its end is in the trace. */
const append = async (journal: Journal, body: EventBody): Promise<void> => {
  if (body.type === "boot.step.output" && journal.isFull) return
  await journal.append(body)
}

/** Reports restarts of processes to readers of the session. */
const tellOf = (event: ProcessEvent, tell: (body: EventBody) => void): void => {
  if (event.type === "restarting")
    tell({ type: "warning", message: `${event.name} is started again: ${event.reason}` })
  if (event.type === "given-up")
    tell({
      type: "warning",
      message: `${event.name} is not started again: ${event.reason}`,
    })
}

const fired = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve()
    signal.addEventListener("abort", () => resolve(), { once: true })
  })
