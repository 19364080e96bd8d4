import type { BootMode } from "@berth/protocol/boot"
import type { WorkspaceSpecInput } from "@berth/protocol/workspace"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { expect } from "vitest"
import { insist } from "./insist.ts"
import { STOCK_EVERY_MS, type Stock, takeSettledStock, takeStock } from "./stock.ts"
import type { World } from "./world.ts"

const CREATE = [
  ...["create.inserted", "create.recorded", "create.claimed", "create.shared", "create.created"],
  ...["create.started", "create.booting"],
]
const REMOVE = [
  ...[
    "remove.stopped",
    "remove.removed",
    "forget.heard",
    "forget.released",
    "forget.unshared",
    "forget.gone",
  ],
]

/** The flows during which the server dies, each with the steps at which it may. */
const flowsWith = (removal: readonly string[]) => ({
  /** A workspace that has no sandbox gets one. */
  create: CREATE,
  /** The workspace of a sandbox has changed, and the sandbox is not in use. */
  replace: ["stop.begun", ...removal, ...CREATE],
  /** The workspace of a sandbox in use has changed: the crash comes then, or when the use has ended. */
  drain: ["drain.moved", "stop.begun", ...removal, ...CREATE],
  stop: removal,
  /** The workspace of a sandbox has changed while the sandbox was paused. */
  paused: ["paused", "stop.begun", ...removal, ...CREATE],
  /** The workspace of a sandbox is removed. */
  remove: [...removal, "removal.closed", "removal.unbooted", "removal.files", "removal.shared"],
  /** A workspace without files boots from a prebuild. */
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

/** A workspace that lives through many deaths of its server. Each round adds a line to one of its files. */
export class Story {
  readonly #world: World
  #lines: string[] = []
  #version = 0
  /** The stock of the host between two rounds. */
  #stock: Stock | undefined

  constructor(world: World) {
    this.#world = world
  }

  /** Takes the stock that is expected after each round: that of a server that was killed and did nothing else. */
  async open(): Promise<void> {
    await insist(() => this.#up())
    await this.#world.restart()
    await this.#again(await insist(() => this.#up()))
    this.#stock = await takeSettledStock(this.#world)
  }

  /** Runs a round. Fails if the server did not die at that step. */
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

  /** Removes the workspace's sandbox with its files. */
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
    // The command in the old sandbox is not cut off: the caller waits for the new sandbox.
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

  /** Repeats the removal that was cut short. It leaves no sandbox, no shared directory and no top. */
  async #removed({ id }: Sandbox): Promise<void> {
    await insist(() => this.#world.client().sandboxes.remove(id))
    this.#lines = []
    expect(await this.#world.client().sandboxes.list()).toEqual([])
    expect(this.#world.sharedDirectories()).toEqual([])
    await expect.poll(() => this.#world.tops()).toEqual([])
  }

  /** Makes a call, and resolves when the server has died at that step of it. The call is answered before that, or never. */
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

  /** Replaces the sandbox, so that every stock has the helpers that a server starts for the first sandbox that it makes. */
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
    // The shared directory of the previous sandbox stays, so that its boot can still be shown.
    expect(this.#world.sharedDirectories().length, line).toBeLessThanOrEqual(2)
  }
}
