import { setTimeout as pause } from "node:timers/promises"
import { inspect } from "node:util"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId, SessionId } from "@berth/protocol/ids"
import type { Client } from "@berth/sdk/client"
import type { Sandbox } from "@berth/sdk/sandboxes"

interface Workspace {
  readonly name: string
  /** The lines that were written, in this order. */
  readonly lines: string[]
  version: number
  isBusy: boolean
  /** Whether a crash cut off an action: its command or terminal may go on, and keeps the sandbox in use. */
  wasCut: boolean
  session: SessionId | undefined
  /** The one sandbox that it keeps, also when it is stale: whoever installs a program on the host changes the system of all. */
  kept: SandboxId | undefined
}

/** The pause between two uses of the resident sandbox. */
const RESIDENT_PAUSE_MS = 200

const workspaceOf = (name: string): Workspace => ({
  name,
  lines: [],
  version: 0,
  isBusy: false,
  wasCut: false,
  session: undefined,
  kept: undefined,
})

/** Many workspaces that are used and changed at random. Each remembers what its files must hold. */
export class Soaked {
  readonly counts = { prompts: 0, commands: 0, background: 0, terminals: 0, changes: 0, stops: 0 }
  readonly #client: () => Client
  readonly #random: () => number
  readonly #workspaces: Workspace[]
  readonly #resident = workspaceOf("soak-resident")
  #up: Promise<void> = Promise.resolve()
  #crashes = 0

  constructor(client: () => Client, count: number, random: () => number) {
    this.#client = client
    this.#random = random
    this.#workspaces = Array.from({ length: count }, (_, index) => workspaceOf(`soak-${index}`))
  }

  /** Makes a sandbox that is held, so that its supervisor lives for as long as the run. */
  async openResident(): Promise<SandboxId> {
    const sandbox = await this.#sandbox(this.#resident)
    await sandbox.hold({ holder: "the soak" })
    this.#resident.kept = sandbox.id
    return sandbox.id
  }

  /** Uses the resident sandbox, and never changes or stops it. */
  async useResident(): Promise<void> {
    await this.#up
    await this.#unlessCut(this.#resident, async () => {
      if (this.#resident.wasCut) await this.#endLeft(this.#resident)
      const sandbox = await this.#sandbox(this.#resident)
      const chance = this.#random()
      if (chance < 0.4) await this.#write(sandbox, this.#resident)
      else if (chance < 0.6) await this.#prompt(this.#resident)
      else if (chance < 0.8) await this.#leave(sandbox)
      else await this.#look(sandbox)
    })
    await pause(RESIDENT_PAUSE_MS)
  }

  /** Works while the server is down. No action begins meanwhile, and running ones are cut off, as by a crash. */
  async whileDown(work: () => Promise<void>): Promise<void> {
    this.#crashes += 1
    this.#up = work()
    await this.#up
  }

  async actOnce(): Promise<void> {
    await this.#up
    const workspace = this.#workspaces[Math.floor(this.#random() * this.#workspaces.length)]
    if (workspace === undefined || workspace.isBusy) return await pause(10)
    workspace.isBusy = true
    await this.#unlessCut(workspace, () => this.#act(workspace))
  }

  async #unlessCut(workspace: Workspace, act: () => Promise<void>): Promise<void> {
    const crashes = this.#crashes
    try {
      await act()
    } catch (thrown) {
      const isCut = thrown instanceof BerthError && CUT.has(thrown.code) && this.#crashes > crashes
      if (!isCut) throw new Error(`${workspace.name}: ${inspect(thrown)}`, { cause: thrown })
      workspace.wasCut = true
    } finally {
      workspace.isBusy = false
    }
  }

  /** Describes the files that are not as they were left, and prompts without an end. */
  async check(): Promise<string[]> {
    const wrong: string[] = []
    for (const workspace of [this.#resident, ...this.#workspaces].filter(
      ({ lines }) => lines.length > 0,
    )) {
      const sandbox = await this.#sandbox(workspace)
      const { stdout } = await sandbox.commands.run("cat kept")
      const found = stdout.split("\n").slice(0, -1)
      // A line whose server was killed before it answered may be there or not.
      const isKept = workspace.lines.every((line) => found.includes(line))
      if (!isKept || new Set(found).size !== found.length)
        wrong.push(`${workspace.name} holds ${found.length} lines of ${workspace.lines.length}`)
    }
    const pending = (await this.#client().sessions.list()).flatMap((session) => session.pending)
    if (pending.length > 0) wrong.push(`prompts without an end: ${pending.join(", ")}`)
    return wrong
  }

  async #act(workspace: Workspace): Promise<void> {
    if (workspace.wasCut) await this.#endLeft(workspace)
    const chance = this.#random()
    if (chance < 0.15) workspace.version += 1
    if (chance < 0.15) this.counts.changes += 1
    const sandbox = await this.#sandbox(workspace)
    if (chance < 0.3) return await this.#write(sandbox, workspace)
    if (chance < 0.5) return await this.#prompt(workspace)
    if (chance < 0.7) return await this.#leave(sandbox)
    if (chance < 0.9) return await this.#look(sandbox)
    await sandbox.stop()
    this.counts.stops += 1
  }

  async #endLeft(workspace: Workspace): Promise<void> {
    const { commands, pty } = await this.#sandbox(workspace)
    for (const { id, exit } of await commands.list()) if (exit === null) await commands.kill(id)
    for (const { id, exit } of await pty.list()) if (exit === null) await pty.kill(id)
    workspace.wasCut = false
  }

  async #sandbox({ name, version, kept }: Workspace): Promise<Sandbox> {
    if (kept !== undefined) return this.#client().sandboxes.at(kept)
    const workspace = {
      slug: name,
      network: { kind: "none" as const },
      environment: { VERSION: String(version) },
    }
    const sandbox = await this.#client().sandboxes.create({ workspace })
    await sandbox.ready()
    return sandbox
  }

  async #write(sandbox: Sandbox, { lines }: Workspace): Promise<void> {
    const line = `${lines.length} ${this.#random()}`
    const { status } = await sandbox.commands.run(["sh", "-c", 'echo "$1" >> kept', "sh", line])
    if (status !== 0) throw new Error(`a line could not be written: ${status}`)
    lines.push(line)
    this.counts.commands += 1
  }

  /** Runs a prompt in the workspace's session, which outlives sandboxes and servers. */
  async #prompt(workspace: Workspace): Promise<void> {
    const { sessions } = this.#client()
    workspace.session ??= (await sessions.create({ workspace: workspace.name })).id
    const session = sessions.at(workspace.session)
    const { lastEvent: after } = await session.get()
    const line = `${workspace.lines.length} ${this.#random()}`
    const { id } = await session.prompt(`echo ${line} >> /workspace/kept`, { key: line })
    // The next server has another address: a client that listens to this one would wait for ever.
    const cut = new AbortController()
    const listen = { after, signal: cut.signal, onBreak: () => cut.abort() }
    for await (const { body } of session.events(listen)) {
      if (body.type !== "prompt.state" || body.prompt !== id) continue
      if (body.state === "succeeded") workspace.lines.push(line)
      if (body.state !== "queued" && body.state !== "running") break
    }
    this.counts.prompts += 1
  }

  async #leave(sandbox: Sandbox): Promise<void> {
    const { id } = await sandbox.commands.start(["sleep", "60"])
    await pause(this.#random() * 500)
    await sandbox.commands.kill(id)
    this.counts.background += 1
  }

  async #look(sandbox: Sandbox): Promise<void> {
    const view = await sandbox.pty.create({ command: ["sh"], cols: 80, rows: 24 })
    await view.write("echo do''ne; exit\n")
    let seen = ""
    for await (const bytes of view.output) seen += Buffer.from(bytes).toString()
    if (!seen.includes("done")) throw new Error(`a terminal said ${JSON.stringify(seen)}`)
    this.counts.terminals += 1
  }
}

/** The errors of an action whose server is killed. */
const CUT = new Set(["server.unreachable", "server.stopping", "cancelled", "bridge.dropped"])
