import type { BootMode } from "@berth/protocol/boot"
import type { WorkspaceSpecInput } from "@berth/protocol/workspace"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { expect } from "vitest"
import { insist } from "./insist.ts"
import { STOCK_EVERY_MS, type Stock, takeSettledStock, takeStock } from "./stock.ts"
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
const flowsWith = (removal: readonly string[]) => ({
  /** A workspace that has no sandbox gets one. */
  create: CREATE,
  /** Its workspace has changed, and nobody uses it. */
  replace: ["stop.begun", ...removal, ...CREATE],
  /** Its workspace has changed, and somebody does: the crash comes then, or when the use has ended. */
  drain: ["drain.moved", "stop.begun", ...removal, ...CREATE],
  stop: removal,
  /** Its workspace has changed while it was paused. */
  paused: ["paused", "stop.begun", ...removal, ...CREATE],
  /** Its workspace is removed. */
  remove: [...removal, "removal.closed", "removal.unbooted", "removal.files", "removal.links"],
  /** A workspace that has no files boots as one that was built before. */
  prebuilt: CREATE,
})

export type Flow = keyof ReturnType<typeof flowsWith>

/** Every step of every flow. `removal`: the steps that only this backend takes to remove a sandbox. */
export const roundsWith = (
  removal: readonly string[],
): readonly { readonly flow: Flow; readonly step: string }[] =>
  Object.entries(flowsWith([...removal, ...REMOVE])).flatMap(([flow, steps]) =>
    steps.map((step) => ({ flow: flow as Flow, step })),
  )

/** One workspace that lives through many deaths of its server. Each round adds a line to a file of it. */
export class Story {
  readonly #world: World
  #lines: string[] = []
  #version = 0
  /** The stock of the host between two rounds. */
  #stock: Stock | undefined

  constructor(world: World) {
    this.#world = world
  }

  /** A server that was killed and did nothing else shows what has to be there after each round. */
  async open(): Promise<void> {
    await insist(() => this.#up())
    await this.#world.restart()
    await this.#again(await insist(() => this.#up()))
    this.#stock = await takeSettledStock(this.#world)
  }

  /** Fails if the server did not die at that step. */
  async round(flow: Flow, step: string): Promise<void> {
    const sandbox = await insist(() => this.#up())
    const line = `${this.#lines.length} ${flow} ${step}`
    await sandbox.commands.run(["sh", "-c", 'echo "$1" >> kept', "sh", line])
    this.#lines.push(line)
    await this[flow](sandbox, step)
    await this.#world.start()
    if (flow === "remove") await this.#removed(sandbox)
    await this.#check(line, flow === "prebuilt" ? "prebuilt" : undefined)
  }

  /** Leaves nothing of the workspace. */
  async close(): Promise<void> {
    const sandbox = await this.#up()
    await this.#world.client().sandboxes.remove(sandbox.id, { force: true })
  }

  private async create(sandbox: Sandbox, step: string): Promise<void> {
    await sandbox.stop()
    await this.#dying(step, () => this.#up())
  }

  private async replace(_sandbox: Sandbox, step: string): Promise<void> {
    this.#version += 1
    await this.#dying(step, () => this.#up())
  }

  private async drain(sandbox: Sandbox, step: string): Promise<void> {
    const { id } = await sandbox.commands.start(["sleep", "1000"])
    this.#version += 1
    // Nobody is cut off for it: the new one is waited for.
    const died = this.#dying(step, () => this.#up())
    if (step !== "drain.moved") {
      await expect.poll(async () => (await sandbox.get()).phase).toBe("draining")
      expect((await sandbox.commands.list()).map((command) => command.id)).toContain(id)
      await sandbox.commands.kill(id)
      return await died
    }
    await died
    await this.#world.start()
    const survivor = this.#world.client().sandboxes.at(sandbox.id)
    expect(await insist(() => survivor.get())).toMatchObject({ phase: "draining" })
    const found = await survivor.commands.list()
    expect(found.filter(({ exit }) => exit === null).map((command) => command.id)).toEqual([id])
    await survivor.commands.kill(id)
    await this.#world.kill()
  }

  private async stop(sandbox: Sandbox, step: string): Promise<void> {
    await this.#dying(step, () => sandbox.stop())
  }

  private async paused(sandbox: Sandbox, step: string): Promise<void> {
    await this.#world.restart({ pauseAfterMs: 100 })
    const { sandboxes } = this.#world.client()
    await expect
      .poll(() => insist(async () => (await sandboxes.at(sandbox.id).get()).phase))
      .toBe("paused")
    if (step === "paused") return await this.#world.kill()
    this.#version += 1
    await this.#dying(step, () => this.#up())
  }

  private async remove(sandbox: Sandbox, step: string): Promise<void> {
    await this.#dying(step, () => this.#world.client().sandboxes.remove(sandbox.id))
  }

  private async prebuilt(sandbox: Sandbox, step: string): Promise<void> {
    await this.#world.client().sandboxes.remove(sandbox.id)
    this.#lines = []
    await this.#dying(step, () => this.#up("prebuilt"))
  }

  /** The removal that was cut short is asked for again, and leaves nothing. */
  async #removed({ id }: Sandbox): Promise<void> {
    await insist(() => this.#world.client().sandboxes.remove(id))
    this.#lines = []
    expect(await this.#world.client().sandboxes.list()).toEqual([])
    expect(this.#world.links()).toEqual([])
    await expect.poll(() => this.#world.tops()).toEqual([])
  }

  /** Resolves when the server has died at that step of what is called: its caller gets an answer before that, or none. */
  async #dying(step: string, call: () => Promise<unknown>): Promise<void> {
    this.#world.dieAt(step)
    const failure = await call().then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    if (failure !== undefined && (failure as { code?: string }).code !== "server.unreachable")
      throw failure
    await this.#world.death()
  }

  async #up(mode: BootMode = "fresh"): Promise<Sandbox> {
    const workspace: WorkspaceSpecInput = {
      slug: "story",
      network: { kind: this.#world.network },
      environment: { VERSION: String(this.#version) },
    }
    const sandbox = await this.#world.client().sandboxes.create({ workspace, mode })
    await sandbox.ready()
    return sandbox
  }

  /** Another sandbox in its place: the helpers that a server starts for the first one that it makes are there then, too. */
  async #again(sandbox: Sandbox): Promise<void> {
    await sandbox.stop()
    const next = await this.#up()
    await next.commands.run("true")
    await expect.poll(async () => (await next.get()).leases).toEqual([])
  }

  async #check(line: string, mode: BootMode | undefined): Promise<void> {
    const sandbox = await insist(() => this.#up(mode))
    if (mode !== undefined) expect((await sandbox.get()).boot).toMatchObject({ mode })
    const { stdout } = await sandbox.commands.run('echo "$VERSION"; cat kept')
    expect(stdout.split("\n"), line).toEqual([String(this.#version), ...this.#lines, ""])
    const { sandboxes } = await this.#world.client().reconcile()
    expect(sandboxes.map(({ sandbox: id, outcome }) => [id, outcome])).toEqual([
      [sandbox.id, "kept"],
    ])
    await expect.poll(async () => (await sandbox.get()).leases).toEqual([])
    await this.#again(sandbox)
    await expect
      .poll(() => takeStock(this.#world), { interval: STOCK_EVERY_MS, message: line })
      .toEqual(this.#stock)
    // The link of the one before stays, for whoever wants to know how it booted.
    expect(this.#world.links().length, line).toBeLessThanOrEqual(2)
  }
}
