import { setTimeout as pause } from "node:timers/promises"
import type { Event } from "@berth/protocol/event"
import type { SandboxId, SessionId } from "@berth/protocol/ids"
import type { Prompt } from "@berth/protocol/session"
import type { WorkspaceSpecInput } from "@berth/protocol/workspace"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { expect } from "vitest"
import { insist, PATIENCE_MS, POLL_MS } from "./insist.ts"
import type { Mishap } from "./mishaps.ts"
import { STOCK_EVERY_MS, type Stock, takeSettledStock, takeStock } from "./stock.ts"
import type { World } from "./world.ts"

const WORKSPACE: WorkspaceSpecInput = { slug: "prompts", network: { kind: "none" } }
const SESSIONS = 2
const PROMPTS = 2

/** Sessions that live through many mishaps: each prompt adds a line of its own to one file. */
export class Conversation {
  readonly #world: World
  readonly #random: () => number
  readonly #sessions: SessionId[] = []
  readonly #followed = new Map<SessionId, Event[]>()
  readonly #over = new AbortController()
  /** The stock of the host between two rounds. */
  #stock: Stock | undefined
  #round = 0

  constructor(world: World, random: () => number) {
    this.#world = world
    this.#random = random
  }

  async open(): Promise<void> {
    for (let count = 0; count < SESSIONS; count++) {
      const { id } = await insist(() =>
        this.#world.client().sessions.create({ workspace: WORKSPACE }),
      )
      this.#sessions.push(id)
      const events: Event[] = []
      this.#followed.set(id, events)
      void this.#follow(id, events)
    }
    await this.#world.restart()
    await this.#again()
    this.#stock = await takeSettledStock(this.#world)
  }

  /** Runs a round. Returns false if there was nothing for the mishap to strike. */
  async round(mishap: Mishap): Promise<boolean> {
    this.#round += 1
    const sent = this.#sessions.map((session, place) => this.#send(session, place))
    await pause(this.#random() * 600)
    const isStruck = await mishap(this.#world, await this.#sandbox(), this.#random)
    await Promise.all(sent)
    await this.#settled()
    await this.#again()
    await expect
      .poll(() => takeStock(this.#world), { interval: STOCK_EVERY_MS })
      .toEqual(this.#stock)
    return isStruck
  }

  /** Checks the prompts and the events of all rounds. */
  async check(): Promise<void> {
    const lines = await this.#lines()
    const counts = new Map<string, number>()
    for (const line of lines) counts.set(line, (counts.get(line) ?? 0) + 1)
    for (const session of this.#sessions) {
      const prompts = await this.#world.client().sessions.at(session).prompts()
      expect(prompts).toHaveLength(this.#round * PROMPTS)
      for (const prompt of prompts) {
        const count = counts.get(lineOf(prompt)) ?? 0
        const isThere = prompt.state === "succeeded" ? count === 1 : count <= 1
        expect({ prompt, count, isThere }).toMatchObject({ isThere: true })
        expect(["succeeded", "interrupted"]).toContain(prompt.state)
      }
      await this.#checkEvents(session, prompts)
    }
  }

  close(): void {
    this.#over.abort()
  }

  async #send(session: SessionId, place: number): Promise<void> {
    for (let number = 0; number < PROMPTS; number++) {
      const line = `${this.#round}-${place}-${number}`
      const text = `echo ${line} >> /workspace/lines; sleep 0.${Math.floor(this.#random() * 3)}; # ${line}`
      // A client that got no answer sends the prompt again under the same key.
      await insist(() => this.#world.client().sessions.at(session).prompt(text, { key: line }))
    }
  }

  /** The sandbox that the first session's last prompt ran in. */
  async #sandbox(): Promise<SandboxId | undefined> {
    const prompts = await insist(() =>
      this.#world
        .client()
        .sessions.at(this.#sessions[0] as SessionId)
        .prompts(),
    )
    return prompts.findLast(({ sandbox }) => sandbox !== null)?.sandbox ?? undefined
  }

  async #settled(): Promise<void> {
    const until = performance.now() + PATIENCE_MS
    for (;;) {
      const pending = (await insist(() => this.#world.client().sessions.list())).flatMap(
        (session) => session.pending,
      )
      if (pending.length === 0) return
      if (performance.now() > until) throw new Error(`round ${this.#round}: pending ${pending}`)
      await pause(POLL_MS)
    }
  }

  /** Replaces the sandbox, so that every stock has the helpers that a server starts for the first sandbox that it makes. */
  async #again(): Promise<void> {
    // A client that watches a session uses its sandbox.
    await (await this.#up()).stop({ force: true })
    await (await this.#up()).commands.run("true")
  }

  async #up(): Promise<Sandbox> {
    const sandbox = await insist(() =>
      this.#world.client().sandboxes.create({ workspace: WORKSPACE }),
    )
    await sandbox.ready()
    return sandbox
  }

  async #lines(): Promise<string[]> {
    const sandbox = await this.#up()
    const { stdout } = await sandbox.commands.run("cat /workspace/lines")
    return stdout.trim().split("\n")
  }

  async #follow(session: SessionId, events: Event[]): Promise<void> {
    const { signal } = this.#over
    const following = this.#world.client().sessions.at(session).events({ signal })
    try {
      for await (const event of following) events.push(event)
    } catch (thrown) {
      if (!signal.aborted) throw thrown
    }
  }

  /** Expects that a client that followed the session all the time got each event once, in order. */
  async #checkEvents(session: SessionId, prompts: readonly Prompt[]): Promise<void> {
    const { lastEvent } = await this.#world.client().sessions.at(session).get()
    const followed = this.#followed.get(session) ?? []
    await expect.poll(() => followed.at(-1)?.sequence).toBe(lastEvent)
    expect(followed.map(({ sequence }) => sequence)).toEqual(
      Array.from({ length: lastEvent }, (_, index) => index + 1),
    )
    for (const { id, state } of prompts) {
      const told = followed.flatMap(({ body }) =>
        body.type === "prompt.state" && body.prompt === id ? [body.state] : [],
      )
      expect(told.at(0)).toBe("queued")
      expect(told.at(-1)).toBe(state)
      expect(new Set(told).size).toBe(told.length)
    }
  }
}

const lineOf = ({ text }: Prompt): string => text.split("# ").at(-1) ?? ""
