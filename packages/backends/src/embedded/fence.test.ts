import { run } from "@berth/host/run"
import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import { namesOf } from "./network/names.ts"
import { openHarness } from "./testing/harness.ts"
import { specFor } from "./testing/spec.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces", "networkNamespaces").describe(
  "the fence of embedded sandboxes",
  () => {
    it("[R1.11] is put back after it was flushed, at the server's start and while the server runs", async () => {
      const told: string[] = []
      const harness = await openHarness({ onFence: ({ kind }) => told.push(kind) })
      try {
        const { table, connectionsTable } = namesOf(harness.installation)
        const nft = (...args: string[]) =>
          run(["nft", ...args], { signal: AbortSignal.timeout(10_000) })
        const whole = [table, connectionsTable]
        const drop = async () => {
          for (const each of whole) await nft("delete", "table", "inet", each)
        }
        const standing = async () => {
          const { stdout } = await nft("list", "tables")
          return whole.filter((each) => stdout.split("\n").includes(`table inet ${each}`))
        }
        const spec = specFor(harness.installation, { network: { kind: "open", allow: [] } })
        await harness.backend.create(spec)
        await harness.backend.start(spec.identity.sandbox)
        await drop()
        expect(await standing()).toEqual([])
        await (await harness.reopen()).repair()
        expect(await standing()).toEqual(whole)
        await drop()
        await expect.poll(standing, { timeout: 10_000 }).toEqual(whole)
        await expect.poll(() => told).toEqual(["restored", "restored"])
      } finally {
        await harness.close()
      }
    })
  },
)
