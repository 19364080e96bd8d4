import { mkdirSync } from "node:fs"
import { request } from "node:http"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import type { CommandServerMessage, CommandStart } from "@berth/protocol/commands"
import { onTestFinished } from "vitest"
import { WebSocket } from "ws"
import { AUTHORIZED, serve } from "../../bridge/testing/supervisor.ts"
import { ActivityTracker } from "../../features/activity-tracker.ts"
import { Dispatch } from "../../features/dispatch.ts"
import type { FeatureParts } from "../../features/parts.ts"
import { systemClock } from "../../processes/clock.ts"
import { Pipes } from "../../processes/output/pipes.ts"
import { ProcessSet } from "../../processes/set.ts"
import { Family } from "../../processes/testing/family.ts"
import { commandsFeature } from "../feature.ts"

/** A supervisor that runs commands, with a workspace of its own. Processes that a failed test leaves are ended. */
export const stage = async (more: Partial<FeatureParts> = {}) => {
  const family = new Family()
  const supervisor = await serve({ features: new Dispatch({ commands: async () => feature }) })
  const { path, directory } = supervisor
  const workspace = join(directory, "workspace")
  mkdirSync(workspace)
  const pipes = new Pipes(directory)
  const clock = systemClock
  const tracker = new ActivityTracker()
  const feature = commandsFeature(
    {
      clock,
      pipes,
      processes: new ProcessSet({ clock, pipes }),
      user: undefined,
      places: { workspace, home: directory, toolbox: directory, logs: directory },
      environment: family.env,
      ...more,
    },
    tracker,
  )
  onTestFinished(async () => {
    await feature.close()
    pipes.close()
    family.killAll()
  })
  return { path, workspace, family, feature, pipes, tracker }
}

type Message<Type> = Extract<CommandServerMessage, { type: Type }>

/** A minimal client of one command. */
export class Client {
  readonly websocket: WebSocket
  readonly messages: CommandServerMessage[] = []
  readonly closed: Promise<number>
  readonly #chunks: Buffer[][] = [[], [], []]
  readonly bytes: [number, number, number] = [0, 0, 0]
  #wakers: (() => void)[] = []

  constructor(path: string, url: string, { keep = true } = {}) {
    this.websocket = new WebSocket(`ws+unix://${path}:${url}`, { headers: AUTHORIZED })
    this.closed = new Promise((resolve) => this.websocket.on("close", resolve))
    this.websocket.on("error", () => {})
    this.websocket.on("message", (data: Buffer, isBinary: boolean) => {
      const channel = data[0] as 1 | 2
      if (!isBinary) this.messages.push(JSON.parse(String(data)))
      else if (keep) this.#chunks[channel]?.push(data.subarray(1))
      if (isBinary) this.bytes[channel] += data.length - 1
      this.#wake()
    })
    void this.closed.then(() => this.#wake())
    onTestFinished(() => this.websocket.terminate())
  }

  get stdout(): string {
    return Buffer.concat(this.#chunks[1] ?? []).toString("latin1")
  }

  get stderr(): string {
    return Buffer.concat(this.#chunks[2] ?? []).toString("latin1")
  }

  async opened(): Promise<this> {
    await new Promise((resolve) => this.websocket.once("open", resolve))
    return this
  }

  say(message: object | string): void {
    this.websocket.send(typeof message === "string" ? message : JSON.stringify(message))
  }

  stdin(bytes: string | Buffer): void {
    this.websocket.send(Buffer.concat([Buffer.from([0]), Buffer.from(bytes)]))
  }

  /** Waits for a condition. Throws if the connection closes before. */
  async until(isDone: () => boolean): Promise<void> {
    while (!isDone() && this.websocket.readyState !== WebSocket.CLOSED)
      await new Promise<void>((resolve) => this.#wakers.push(resolve))
    if (!isDone()) throw new Error(`closed before: ${JSON.stringify(this.messages)}`)
  }

  async message<Type extends CommandServerMessage["type"]>(type: Type): Promise<Message<Type>> {
    const find = () => this.messages.find((message) => message.type === type)
    await this.until(() => find() !== undefined)
    return find() as Message<Type>
  }

  #wake(): void {
    for (const wake of this.#wakers.splice(0)) wake()
  }
}

/** Starts a command, and returns its client. */
export const run = async (path: string, start: CommandStart, options = {}): Promise<Client> => {
  const client = await new Client(path, "/commands/run", options).opened()
  client.say(start)
  return client
}

export const sh = (script: string, more: Partial<CommandStart> = {}): CommandStart => ({
  command: ["/bin/sh", "-c", script],
  ...more,
})

export const attachTo = (path: string, id: string, query = ""): Promise<Client> =>
  new Client(path, `/commands/${id}/attach${query}`).opened()

/** Sends a request with a body, and returns status and answer. */
export const ask = (socketPath: string, method: string, path: string, body?: unknown) =>
  new Promise<{ status: number | undefined; body: ReturnType<typeof JSON.parse> }>(
    (resolve, reject) => {
      const sent = request({ socketPath, path, headers: AUTHORIZED, method, agent: false })
      sent.on("error", reject)
      sent.on("response", (response) => {
        const read = text(response).then((said) => ({
          status: response.statusCode,
          body: said === "" ? undefined : JSON.parse(said),
        }))
        read.then(resolve, reject)
      })
      sent.end(body === undefined ? undefined : JSON.stringify(body))
    },
  )
