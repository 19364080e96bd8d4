import { join } from "node:path"
import type { BootPlan } from "@berth/protocol/boot-plan"
import type { EventBody } from "@berth/protocol/event"
import { SHARED } from "@berth/protocol/shared-directory"
import type { Agent } from "../agents/agent.ts"
import { gitEnvironment } from "../bridge/git-environment.ts"
import { HostRequests } from "../bridge/host-requests.ts"
import { openPrompts, type Prompts } from "../bridge/prompts.ts"
import { chooseAgent } from "../choose-agent.ts"
import { ActivityTracker } from "../features/activity-tracker.ts"
import { type Journal, openJournal } from "../journal/journal.ts"
import { keepTrying } from "../journal/keep-trying.ts"
import { type Ledger, openLedger } from "../journal/ledger.ts"
import { Pipes } from "../processes/output/pipes.ts"
import { ProcessSet } from "../processes/set.ts"
import { userEnvironment } from "../user-environment.ts"
import type { SandboxParts } from "./options.ts"
import { Reports } from "./reports.ts"

/** The parts of a sandbox that live as long as it does. */
export interface Parts {
  readonly journal: Promise<Journal>
  readonly ledger: Promise<Ledger>
  readonly reports: Reports
  readonly pipes: Pipes
  readonly processes: ProcessSet
  readonly environment: Readonly<Record<string, string>>
  readonly tracker: ActivityTracker
  readonly hostRequests: HostRequests
  readonly agent: Agent
  readonly prompts: Promise<Prompts>
}

export const openParts = (options: SandboxParts, plan: BootPlan): Parts => {
  const { clock, shared, places, user, stop, onFault } = options
  const journal = openJournal({ directory: join(shared, SHARED.journal) })
  const ledger = openLedger(join(shared, SHARED.ledger))
  const reports = new Reports(journal, onFault)
  const pipes = new Pipes(places.logs)
  const processes = new ProcessSet({ clock, pipes, onEvent: reports.tellOf })
  const environment = environmentOf(options, plan)
  const tracker = new ActivityTracker()
  const hostRequests = new HostRequests()
  const agent = chooseAgent(plan.agent, {
    clock,
    pipes,
    processes,
    places,
    user,
    environment,
    askForKeys: async (signal) => (await hostRequests.send({ kind: "keys" }, signal)).keys,
  })
  const prompts = promptsOf({ journal, ledger, agent, tracker, stop })
  return {
    journal,
    ledger,
    reports,
    pipes,
    processes,
    environment,
    tracker,
    hostRequests,
    agent,
    prompts,
  }
}

const environmentOf = ({ places, user, credentials }: SandboxParts, plan: BootPlan) =>
  userEnvironment({
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

type OfPrompts = Pick<Parts, "journal" | "ledger" | "agent" | "tracker"> & {
  readonly stop: AbortSignal
}

const promptsOf = ({ agent, tracker, stop, ...files }: OfPrompts): Promise<Prompts> => {
  const open = async (): Promise<Prompts> => {
    const [journal, ledger] = await Promise.all([files.journal, files.ledger])
    return openPrompts({
      journal,
      ledger,
      signal: stop,
      onChange: (ids) => tracker.setPrompts(ids),
      run: async (start, signal) => {
        const { givenUp } = await prompts
        const say = async (body: EventBody) => {
          await keepTrying(() => journal.append(body, { signal: givenUp }), givenUp)
        }
        return agent.prompt(start, say, signal)
      },
      answer: (prompt, answer) => agent.answer(prompt, answer),
    })
  }
  const prompts = open()
  return prompts
}
