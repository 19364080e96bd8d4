import type { EventBody } from "@berth/protocol/event"
import { expect, it, vi } from "vitest"
import { Reports } from "./reports.ts"

const open = (isFull = false) => {
  const told: EventBody[] = []
  const append = async (body: EventBody) => {
    told.push(body)
    return { number: told.length } as never
  }
  const onFault = vi.fn()
  const reports = new Reports(Promise.resolve({ append, isFull } as never), onFault)
  return { reports, told, onFault }
}

const OUTPUT: EventBody = {
  type: "boot.step.output",
  step: "setup",
  text: "x",
} as never

it("tells of a process that is started again, and of one that is not", async () => {
  const { reports, told } = open()
  reports.tellOf({ type: "restarting", name: "web", reason: "it ended" } as never)
  reports.tellOf({ type: "given-up", name: "web", reason: "it ended too often" } as never)
  reports.tellOf({ type: "ready", name: "web" } as never)
  await vi.waitFor(() => expect(told).toHaveLength(2))
  expect(told).toEqual([
    { type: "warning", message: "web is started again: it ended" },
    { type: "warning", message: "web is not started again: it ended too often" },
  ])
})

it("leaves live output out of a full journal, and nothing else", async () => {
  const { reports, told } = open(true)
  reports.tell(OUTPUT)
  reports.warn("the last")
  await vi.waitFor(() => expect(told).toEqual([{ type: "warning", message: "the last" }]))
})

it("calls a journal that cannot be opened a fault", async () => {
  const onFault = vi.fn()
  new Reports(Promise.reject(new Error("no disk")), onFault).warn("anything")
  await vi.waitFor(() => expect(onFault).toHaveBeenCalledWith(new Error("no disk")))
})
