import { ToolboxId } from "@berth/protocol/toolbox"
import type { BuildCall } from "@berth/toolbox/build"
import type { OptionalAgent } from "@berth/toolbox/inputs/optional-agents"
import type { BuiltToolbox } from "@berth/toolbox/store"
import { expect, it, onTestFinished, vi } from "vitest"
import { createLogger } from "../../logging/logger.ts"
import { Secrets } from "../../logging/secrets.ts"
import { currentToolbox } from "./current-toolbox.ts"

const log = await createLogger({
  level: "fatal",
  pretty: false,
  secrets: new Secrets(),
  destination: { write: () => {} },
})

const TOOLBOX = { id: ToolboxId.parse(`tb-${"0".repeat(40)}`), outcome: "built" } as BuiltToolbox

/** A build whose progress and end are said by the test. */
const stage = ({ collectAfterMs = 60_000 } = {}) => {
  const builds: (OptionalAgent | undefined)[] = []
  let building = Promise.withResolvers<BuiltToolbox>()
  let call: BuildCall | undefined
  const collected: (readonly ToolboxId[])[] = []
  const toolbox = currentToolbox({
    collect: async (keep) => collected.push(keep),
    collectAfterMs,
    build: (given, agent) => {
      builds.push(agent)
      call = given
      building = Promise.withResolvers()
      return building.promise
    },
    log,
    signal: new AbortController().signal,
    tellEveryMs: 5,
  })
  return {
    toolbox,
    builds,
    collected,
    copy: (percent: number) =>
      call?.onProgress?.({ step: "copying", entry: "node", bytesDone: percent, bytesTotal: 100 }),
    end: () => building.resolve(TOOLBOX),
    fail: () => building.reject(new Error("the disk is full")),
  }
}

it("tells a caller that asks again how far the build is, in tenths", async () => {
  const { toolbox, copy, end, builds } = stage()
  const first = toolbox("shell", { isTold: true })
  copy(34)
  await expect(first).rejects.toMatchObject({
    code: "toolbox.preparing",
    message: "the toolbox is being built: copying 30 %",
  })
  const again = toolbox("opencode", { isTold: true })
  end()
  expect(await again).toBe(TOOLBOX)
  expect(builds).toEqual([undefined])
})

it("names the agent whose toolbox is made for its first use", async () => {
  const { toolbox, copy } = stage()
  const told = toolbox("codex", { isTold: true })
  copy(90)
  await expect(told).rejects.toMatchObject({
    message: "codex is made ready for its first use: copying 90 %",
    details: { agent: "codex" },
  })
})

it("lets every other caller wait for the one build, until its own signal fires", async () => {
  const { toolbox, copy, end, builds } = stage()
  const waiting = toolbox("claude")
  const gone = new AbortController()
  const leaving = toolbox("claude", { signal: gone.signal })
  copy(50)
  await expect(toolbox("claude", { isTold: true })).rejects.toMatchObject({
    code: "toolbox.preparing",
  })
  gone.abort()
  await expect(leaving).rejects.toThrow("abort")
  end()
  expect(await waiting).toBe(TOOLBOX)
  expect(builds).toEqual(["claude"])
})

it("builds again after a failure", async () => {
  const { toolbox, fail, end, builds } = stage()
  const failed = toolbox("shell")
  fail()
  await expect(failed).rejects.toThrow("the disk is full")
  const next = toolbox("shell")
  end()
  expect(await next).toBe(TOOLBOX)
  expect(builds).toEqual([undefined, undefined])
})

it("removes unused toolboxes after a build, except those that it has built", async () => {
  const { toolbox, end, collected } = stage({ collectAfterMs: 1 })
  const built = toolbox("shell")
  end()
  await built
  await expect.poll(() => collected).toEqual([[TOOLBOX.id]])
})

it("removes no toolboxes while another one is being built, which is not in use yet", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout"] })
  onTestFinished(() => void vi.useRealTimers())
  const { toolbox, end, collected } = stage({ collectAfterMs: 1_000 })
  const first = toolbox("shell")
  end()
  await first
  const second = toolbox("codex")
  vi.advanceTimersByTime(1_000)
  expect(collected).toEqual([])
  end()
  await second
  vi.advanceTimersByTime(1_000)
  expect(collected).toEqual([[TOOLBOX.id, TOOLBOX.id]])
})
