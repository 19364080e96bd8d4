import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Writable } from "node:stream"
import { openBridge } from "@berth/bridge/bridge"
import { newId } from "@berth/protocol/ids"
import { createLogger } from "@berth/server/logging/logger"
import { Secrets } from "@berth/server/logging/secrets"
import { answerHostRequests, type WorkspaceRepo } from "@berth/server/repos/answer-host-requests"
import { HostRequests, type HostRequestsOptions } from "@berth/supervisor/bridge/host-requests"
import { Inside } from "@berth/supervisor/bridge/inside"
import { openPrompts } from "@berth/supervisor/bridge/prompts"
import { serveBridge } from "@berth/supervisor/bridge/serve"
import { Upgrades } from "@berth/supervisor/bridge/upgrades"
import { openJournal } from "@berth/supervisor/journal/journal"
import { openLedger } from "@berth/supervisor/journal/ledger"
import { onTestFinished } from "vitest"

const TOKEN = "a-token-for-tests-0123456789abcdefghijkl"

type OnHostRequest = NonNullable<Parameters<typeof openBridge>[0]["onHostRequest"]>

/** Starts a supervisor's bridge, without the rest of a supervisor, on a real socket, for servers that come and go. */
export const bothEnds = async (options: HostRequestsOptions = {}) => {
  const directory = mkdtempSync(join(tmpdir(), "berth-asks-"))
  const inside = join(directory, "inside")
  const host = join(directory, "host")
  for (const place of [inside, host]) mkdirSync(place)
  const socket = join(directory, "socket")
  const sandbox = newId.sandbox()
  const journal = await openJournal({ directory: join(inside, "journal") })
  const ledger = await openLedger(join(inside, "ledger"))
  const prompts = await openPrompts({ journal, ledger, run: async () => ({ state: "succeeded" }) })
  const hostRequests = new HostRequests(options)
  const onFault = () => {}
  const upgrades = new Upgrades({
    sandbox,
    journal: Promise.resolve(journal),
    prompts: Promise.resolve(prompts),
    hostRequests,
    onFault,
  })
  const supervisor = await serveBridge({
    listen: [{ path: socket }],
    token: TOKEN,
    sandbox,
    health: () => ({ ready: true, prompts: 0 }),
    boot: () => ({}),
    inside: Promise.resolve(new Inside({ upgrades, hostRequests })),
    onFault,
  })
  const events: unknown[] = []
  const lines: string[] = []
  const servers = new Set<() => Promise<void>>()

  /** Starts a server with these answers, and returns a function that ends it. */
  const startServer = (onHostRequest: OnHostRequest) => {
    const stop = new AbortController()
    const bridge = openBridge(
      {
        address: { path: socket },
        token: TOKEN,
        sandbox,
        lastSeen: events.length,
        onEvents: async (batch) => void events.push(...batch),
        onHostRequest,
      },
      stop.signal,
    )
    const end = async () => {
      stop.abort()
      await bridge.closed
      servers.delete(end)
    }
    servers.add(end)
    return end
  }

  const answers = async (repos: readonly WorkspaceRepo[]): Promise<OnHostRequest> => {
    const secrets = new Secrets()
    const destination = new Writable({
      write: (line, _, done) => {
        lines.push(String(line))
        done()
      },
    })
    const log = await createLogger({ level: "trace", pretty: false, secrets, destination })
    const environment = { PATH: process.env.PATH, HOME: host }
    return answerHostRequests({ sandbox, repos, environment, secrets, log })
  }

  onTestFinished(async () => {
    await Promise.all([...servers].map((end) => end()))
    await supervisor.close()
    await prompts.close()
    await journal.close()
    await ledger.close()
    rmSync(directory, { recursive: true, force: true })
  })
  return { directory, inside, host, hostRequests, journal, events, lines, startServer, answers }
}
