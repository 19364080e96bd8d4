import { requires } from "@berth/testing/requires"
import { onSmallDisk } from "@berth/testing/small-disk"
import { expect, it } from "vitest"
import { startChild } from "./testing/child.ts"
import { makeDataDir } from "./testing/data-dir.ts"

/** Runs a script on a real, small disk of its own, and gathers the lines that it prints. */
const runOnSmallDisk = <Line extends object>(script: string): Promise<Line[]> => {
  const disk = makeDataDir()
  return startChild(script, { args: [disk], wrapper: onSmallDisk(disk) }).rest()
}

const together = (lines: readonly object[]): object => Object.assign({}, ...lines)

requires("userNamespaces").describe("the store on a real disk", () => {
  it("fails writes and starts with store.disk_full when that is full, loses nothing, and goes on when there is space", async () => {
    expect(together(await runOnSmallDisk("fill-disk.ts"))).toEqual({
      durable: "store.disk_full",
      ordinary: "store.disk_full",
      readsWhileFull: ["before"],
      readsAfterwards: ["after", "before"],
      open: "store.disk_full",
      openElsewhere: "store.disk_full",
      unchanged: true,
      leftElsewhere: [],
      migration: "store.disk_full",
      readsAtLast: ["after", "before"],
    })
  })

  it("makes no database that cannot be opened later when there is little space", async () => {
    const attempts = await runOnSmallDisk<Attempt>("nearly-fill-disk.ts")
    const outcomes = new Set(attempts.map(({ nearlyFull }) => nearlyFull))
    expect(outcomes).toEqual(new Set(["store.disk_full", "opened"]))
    expect(attempts.filter(({ afterwards }) => afterwards !== "opened")).toEqual([])
  })

  it("is refused with store.read_only, untouched, when that is read-only, and opens when it is writable again", async () => {
    expect(together(await runOnSmallDisk("go-read-only.ts"))).toEqual({
      open: "store.read_only",
      openElsewhere: "store.read_only",
      unchanged: true,
      readsAtLast: ["before"],
    })
  })
})

interface Attempt {
  readonly freePages: number
  readonly nearlyFull: string
  readonly afterwards: string
}
