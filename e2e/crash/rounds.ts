import type { WorkspaceSpecInput } from "@berth/protocol/workspace"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { expect } from "vitest"
import type { World } from "./world.ts"

const CREATE = [
  ...["create.inserted", "create.recorded", "create.claimed", "create.linked", "create.created"],
  ...["create.started", "create.booting"],
]
const REMOVE = [
  ...[
    "remove.stopped",
    "remove.removed",
    "forget.heard",
    "forget.released",
    "forget.unlinked",
    "forget.gone",
  ],
]

/** What is done while the server dies, and where it may. */
const FLOWS = {
  /** A workspace that has no sandbox gets one. */
  create: CREATE,
  /** Its workspace has changed, and nobody uses it. */
  replace: ["stop.begun", ...REMOVE, ...CREATE],
  /** Its workspace has changed, and somebody does: the crash comes then, or when the use has ended. */
  drain: ["drain.moved", "stop.begun", ...REMOVE, ...CREATE],
  stop: REMOVE,
} as const

export type Flow = keyof typeof FLOWS

export const ROUNDS: readonly { readonly flow: Flow; readonly step: string }[] = Object.entries(
  FLOWS,
).flatMap(([flow, steps]) => steps.map((step) => ({ flow: flow as Flow, step })))

/** One workspace that lives through many deaths of its server. Each round adds a line to a file of it. */
export class Story {
  readonly #world: World
  readonly #lines: string[] = []
  #version = 0

  constructor(world: World) {
    this.#world = world
  }

  async round(flow: Flow, step: string): Promise<void> {
    const sandbox = await this.#up()
    const line = `${this.#lines.length} ${flow} ${step}`
    await sandbox.commands.run(["sh", "-c", 'echo "$1" >> kept', "sh", line])
    this.#lines.push(line)
    await this[flow](sandbox, step)
    // Whether it came there or not: what follows holds in any case.
    await this.#world.restart()
    await this.#check(line)
  }

  private async create(sandbox: Sandbox, step: string): Promise<void> {
    await sandbox.stop()
    this.#world.dieAt(step)
    await this.#until(this.#up())
  }

  private async replace(_sandbox: Sandbox, step: string): Promise<void> {
    this.#world.dieAt(step)
    this.#version += 1
    await this.#until(this.#up())
  }

  private async drain(sandbox: Sandbox, step: string): Promise<void> {
    const { id } = await sandbox.commands.start(["sleep", "1000"])
    this.#world.dieAt(step)
    this.#version += 1
    // Nobody is cut off for it: the new one is waited for.
    const upped = this.#until(this.#up())
    if (step !== "drain.moved") {
      await expect.poll(async () => (await sandbox.get()).phase).toBe("draining")
      expect((await sandbox.commands.list()).map((command) => command.id)).toContain(id)
      await sandbox.commands.kill(id)
      return await upped
    }
    await upped
    await this.#world.restart()
    const survivor = this.#world.client().sandboxes.at(sandbox.id)
    expect(await survivor.get()).toMatchObject({ phase: "draining" })
    const found = await survivor.commands.list()
    expect(found.filter(({ exit }) => exit === null).map((command) => command.id)).toEqual([id])
    await survivor.commands.kill(id)
  }

  private async stop(sandbox: Sandbox, step: string): Promise<void> {
    this.#world.dieAt(step)
    await this.#until(sandbox.stop())
  }

  /** What a server that dies in the middle of it leaves its caller with. */
  async #until(call: Promise<unknown>): Promise<void> {
    const failure = await call.then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    if (failure === undefined) return
    const { code } = failure as { code?: string }
    if (code !== "server.unreachable") throw failure
    await this.#world.death()
  }

  async #up(): Promise<Sandbox> {
    const workspace: WorkspaceSpecInput = {
      ...{ slug: "story", network: { kind: "none" } },
      environment: { VERSION: String(this.#version) },
    }
    const sandbox = await this.#world.client().sandboxes.create({ workspace })
    await sandbox.ready()
    return sandbox
  }

  async #check(line: string): Promise<void> {
    const sandbox = await this.#up()
    const { stdout } = await sandbox.commands.run('echo "$VERSION"; cat kept')
    expect(stdout.split("\n"), line).toEqual([String(this.#version), ...this.#lines, ""])
    const { sandboxes } = await this.#world.client().reconcile()
    expect(sandboxes.map(({ sandbox: id, outcome }) => [id, outcome])).toEqual([
      [sandbox.id, "kept"],
    ])
    await expect.poll(async () => (await sandbox.get()).leases).toEqual([])
    // The link of the one before stays, for whoever wants to know how it booted.
    expect(this.#world.links().length, line).toBeLessThanOrEqual(2)
    expect(this.#world.tops().length, line).toBe(2)
  }
}
