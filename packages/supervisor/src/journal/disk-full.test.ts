import { execFileSync } from "node:child_process"
import { rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { expect, it, onTestFinished } from "vitest"
import { keepTrying } from "./keep-trying.ts"
import { openLedger } from "./ledger.ts"
import { counted, event, readAll, reopened, temporaryDirectory } from "./testing/events.ts"

const DISK_BYTES = 256 * 1024

const smallDisk = () => {
  const directory = temporaryDirectory()
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${DISK_BYTES}`, "tmpfs", directory])
  onTestFinished(() => {
    execFileSync("umount", ["--lazy", directory])
  })
  return directory
}

const fill = (disk: string) => {
  const path = join(disk, "filler")
  try {
    for (;;) writeFileSync(path, Buffer.alloc(4096), { flag: "a" })
  } catch {
    return () => rmSync(path)
  }
}

requires("root").describe("on a full disk", () => {
  it("[R3.4] the journal fails with a typed error, and goes on without a gap when there is space again", async () => {
    const disk = smallDisk()
    const directory = join(disk, "journal")
    // Groups of 8 KiB, so that a small event waits behind large ones that do not fit.
    const journal = await reopened(directory, { maxBytes: 64 * 1024 })
    for (let label = 1; label <= 5; label++) await journal.append(event(label))
    const free = fill(disk)
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, (_, place) =>
        journal.append(event(6 + place, place < 19 ? 2000 : 0)),
      ),
    )
    const taken = outcomes.filter(({ status }) => status === "fulfilled").length
    expect(taken).toBeLessThan(20)
    // The first event that fails makes all later ones fail, so that the order holds.
    expect(outcomes.slice(taken).every(({ status }) => status === "rejected")).toBe(true)
    expect(outcomes.at(-1)).toMatchObject({ reason: { code: "journal.disk_full" } })
    expect(await readAll(journal)).toEqual(counted(5 + taken))

    free()
    await journal.append(event(6 + taken), { durable: true })
    await journal.close()
    expect(await readAll(await reopened(directory))).toEqual(counted(6 + taken))
  })

  it("[R3.4] an append waits for space where its caller keeps trying", async () => {
    const disk = smallDisk()
    const journal = await reopened(join(disk, "journal"))
    const free = fill(disk)
    let tries = 0
    const appended = keepTrying(() => {
      if (++tries === 2) free()
      return journal.append(event(1, 10_000))
    }, new AbortController().signal)
    expect(await appended).toMatchObject({ sequence: 1 })
    const refill = fill(disk)
    const stop = new AbortController()
    const never = keepTrying(() => {
      stop.abort(new Error("enough"))
      return journal.append(event(2, 10_000))
    }, stop.signal)
    await expect(never).rejects.toThrow("enough")
    refill()
  })

  it("[R3.4] the ledger accepts no prompt that it cannot note, and does not know it later", async () => {
    const disk = smallDisk()
    const ledger = await openLedger(join(disk, "ledger"))
    onTestFinished(() => ledger.close())
    const free = fill(disk)
    const start = { prompt: newId.prompt(), session: newId.session(), text: "x".repeat(10_000) }
    await expect(ledger.accept(start)).rejects.toMatchObject({ code: "journal.disk_full" })
    expect(ledger.standing(start.prompt)).toEqual({ state: "unknown" })
    free()
    expect(await ledger.accept(start)).toEqual({ standing: { state: "accepted" }, isNew: true })
  })
})
