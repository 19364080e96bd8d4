import { MAX_ACTIVE_PROMPTS, MAX_ACTIVITY_WAIT_MS } from "@berth/protocol/activity-limits"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { GET_DEADLINE_MS } from "./get.ts"
import { readActivity } from "./read-activity.ts"
import { answering, reply } from "./testing/answering.ts"
import { TOKEN } from "./testing/watch.ts"

const never = new AbortController().signal
const NOTHING = { version: 3, prompts: [], commands: [], terminals: [], leftProcesses: 0 }
const busy = {
  version: 4,
  prompts: [newId.prompt()],
  commands: ["cmd-0123456789abcdef0123"],
  terminals: [{ id: "term-0123456789abcdef0123", viewers: 2 }],
  leftProcesses: 7,
}

const sandbox = async (body: string | (() => void)) => {
  const { path, requests } = await answering((socket) => {
    if (typeof body === "string") socket.end(reply(body))
    else body()
  })
  return { link: { socket: path, token: TOKEN }, requests }
}

describe("the activity of a sandbox", () => {
  it("is asked for with the token, and parsed", async () => {
    const { link, requests } = await sandbox(JSON.stringify({ ...busy, more: "unknown" }))
    expect(await readActivity(link, {}, never)).toEqual(busy)
    expect(await readActivity(link, { after: 4, waitMs: 1_000 }, never)).toEqual(busy)
    expect(requests[0]).toMatch(/^GET \/activity HTTP/)
    expect(requests[1]).toMatch(/^GET \/activity\?after=4&wait=1000 HTTP/)
    expect(requests[1]).toContain(`authorization: Bearer ${TOKEN}\r\n`)
  })

  it.each<[string, object]>([
    ["a version that is no integer", { version: 1.5 }],
    ["a version below zero", { version: -1 }],
    ["a prompt of another form", { prompts: ["pr-1"] }],
    ["prompts without end", { prompts: Array(MAX_ACTIVE_PROMPTS + 1).fill(newId.prompt()) }],
    ["a command of another form", { commands: ["../../etc"] }],
    ["commands without end", { commands: Array(1_025).fill(busy.commands[0]) }],
    ["terminals without end", { terminals: Array(65).fill(busy.terminals[0]) }],
    ["viewers below zero", { terminals: [{ ...busy.terminals[0], viewers: -1 }] }],
    ["processes below zero", { leftProcesses: -1 }],
    ["processes beyond number", { leftProcesses: 1e300 }],
    ["no number of processes", { leftProcesses: undefined }],
  ])("is refused with %s", async (_, wrong) => {
    const { link } = await sandbox(JSON.stringify({ ...NOTHING, ...wrong }))
    await expect(readActivity(link, {}, never)).rejects.toMatchObject({
      code: "bridge.protocol_violated",
    })
  })

  it("is accepted with the most of everything, and refused beyond 600,000 bytes", async () => {
    const most = {
      ...NOTHING,
      prompts: Array.from({ length: MAX_ACTIVE_PROMPTS }, () => newId.prompt()),
      commands: Array(1_024).fill(busy.commands[0]),
      terminals: Array(64).fill(busy.terminals[0]),
    }
    const full = await sandbox(JSON.stringify(most))
    expect(await readActivity(full.link, {}, never)).toEqual(most)
    const { link } = await sandbox(`${" ".repeat(600_000)}${JSON.stringify(NOTHING)}`)
    await expect(readActivity(link, {}, never)).rejects.toMatchObject({
      code: "bridge.limit_exceeded",
    })
  })

  it("is given up at the deadline after the wait, or when its caller gives up", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    onTestFinished(() => void vi.useRealTimers())
    const came = Promise.withResolvers<void>()
    const { link } = await sandbox(() => came.resolve())
    const stop = new AbortController()
    const ended: string[] = []
    const ask = (signal: AbortSignal) =>
      readActivity(link, { after: 3, waitMs: MAX_ACTIVITY_WAIT_MS }, signal).catch((thrown) => {
        ended.push(thrown.code ?? thrown.message)
      })
    const both = [ask(never), ask(stop.signal)]
    await came.promise
    vi.advanceTimersByTime(MAX_ACTIVITY_WAIT_MS + GET_DEADLINE_MS - 1)
    stop.abort(new Error("enough"))
    await both[1]
    expect(ended).toEqual(["enough"])
    vi.advanceTimersByTime(1)
    await both[0]
    expect(ended).toEqual(["enough", "bridge.timed_out"])
  })
})
