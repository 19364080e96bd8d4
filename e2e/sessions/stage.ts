import { writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Event, EventBody } from "@berth/protocol/event"
import type { SystemSource, WorkspaceSpecInput } from "@berth/protocol/workspace"
import type { Session } from "@berth/sdk/sessions"
import { importTree } from "@berth/testing/docker/image"
import { sharedEngine } from "@berth/testing/docker/shared-engine"
import { modelProgram } from "@berth/testing/model/program"
import type { ModelTurn } from "@berth/testing/model/script"
import { afterAll, beforeAll } from "vitest"
import { makeRepo } from "../boot/stage.ts"
import { openServer } from "../sandboxes/server.ts"
import { AGENTS, type AgentName, KEY, MODEL_PORT } from "./agents.ts"
import { makeSystem } from "./system.ts"

/** With these flags, a sandbox whose workspace changes between two prompts is soon replaced. */
const KEEP = ["--session-keep", "1s"]

const IMAGE = "berth-test/agents:latest"

/** The folder in which the model notes its requests. It stays when the sandbox is replaced. */
const ASKED = "/workspace/asked"

type Server = Awaited<ReturnType<typeof openServer>>

/** A real server whose sandboxes have real agents in them, and a model for each. */
export interface Stage {
  readonly server: Server
  workspace(agent: AgentName): WorkspaceSpecInput & { readonly slug: string }
  /** The requests to the model of a workspace, so far. */
  asked(workspace: string): Promise<ModelTurn[]>
  /** The workspace's sandbox. */
  sandbox(workspace: string): Promise<ReturnType<Server["sandbox"]>>
  close(): Promise<void>
}

/** Covers the making of a toolbox and of a system, which Docker imports, beside other tests. */
const STAGE_DEADLINE_MS = 240_000
/** Covers the boot of a sandbox with an agent, which takes seconds of two cores, beside other tests. */
export const DEADLINE_MS = 180_000

/** Opens a stage for the tests of one block. */
export const useStage = (open: () => Promise<Stage>): (() => Stage) => {
  let stage: Stage
  beforeAll(async () => {
    stage = await open()
  }, STAGE_DEADLINE_MS)
  afterAll(() => stage?.close(), STAGE_DEADLINE_MS)
  return () => stage
}

export const openEmbeddedStage = async (): Promise<Stage> => {
  const server = await openServer(KEEP)
  const system = join(server.base, "system")
  await makeSystem(system)
  const stage = await stageOf(server, { kind: "rootfs", path: system })
  return { ...stage, close: () => server.close() }
}

export const openDockerStage = async (): Promise<Stage> => {
  const engine = await sharedEngine()
  const server = await openServer(["--backend", "docker", "--engine", engine.host, ...KEEP])
  const system = join(server.base, "system")
  await makeSystem(system)
  await importTree(engine, IMAGE, system)
  const stage = await stageOf(server, { kind: "image", reference: IMAGE })
  return { ...stage, close: () => server.close() }
}

const stageOf = async (server: Server, system: SystemSource): Promise<Omit<Stage, "close">> => {
  const scripts = Object.entries(AGENTS).map(([name, { script }]) => [
    `${name}.json`,
    JSON.stringify(script),
  ])
  const app = makeRepo(join(server.base, "app"), { README: "hello\n" })
  const model = makeRepo(join(server.base, "model"), {
    "model-server.mjs": await modelProgram(),
    ...Object.fromEntries(scripts),
  })
  const keys = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "SCRIPTED_KEY"]
    .map((name) => `${name}=${KEY}\n`)
    .join("")
  writeFileSync(join(server.dataDir, "keys.env"), keys, { mode: 0o600 })

  const sandbox = async (workspace: string) => {
    const all = await server.client().sandboxes.list()
    const found = all.findLast(({ identity }) => identity.workspace === workspace)
    if (found === undefined) throw new Error(`${workspace} has no sandbox`)
    return server.sandbox(found.identity.sandbox)
  }
  return {
    server,
    sandbox,
    workspace: (name) => {
      const { agent, environment } = AGENTS[name]
      const files = ["model-server.mjs", `${name}.json`].map((file) => `/workspace/model/${file}`)
      return {
        slug: name,
        system,
        network: { kind: "none" },
        repos: [
          { url: app, directory: "app" },
          { url: model, directory: "model" },
        ],
        agent,
        environment: { ...environment },
        sidecars: [
          {
            name: "model",
            command: ["/opt/berth/bin/node", ...files, ASKED],
            port: MODEL_PORT,
            afterHooks: true,
            required: true,
          },
        ],
      }
    },
    asked: async (workspace) => {
      const text = await (await sandbox(workspace)).files.readText(`${ASKED}/asked.jsonl`)
      return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line)]))
    },
  }
}

const ENDS = new Set(["succeeded", "failed", "stopped", "interrupted"])

/** Sends a prompt, and returns the events of its session up to its end. */
export const promptToEnd = async (session: Session, text: string): Promise<Event[]> => {
  const { id } = await session.prompt(text)
  return await eventsUntil(
    session,
    (body) => body.type === "prompt.state" && body.prompt === id && ENDS.has(body.state),
  )
}

/** Reads the events of a session, up to the first one that fits. */
export const eventsUntil = async (
  session: Session,
  holds: (body: EventBody) => boolean,
): Promise<Event[]> => {
  const events: Event[] = []
  for await (const event of session.events()) {
    events.push(event)
    if (holds(event.body)) break
  }
  return events
}
