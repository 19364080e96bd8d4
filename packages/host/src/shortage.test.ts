import { expect, it } from "vitest"
import { LEAST, openShortage, shortageOf } from "./shortage.ts"

const { low, out } = LEAST

it("is none where there is enough of everything", () => {
  expect(shortageOf(low, "low")).toBeUndefined()
  expect(shortageOf(out, "out")).toBeUndefined()
})

it("is low before it is out", () => {
  expect(shortageOf(out, "low")).toBeDefined()
})

it.each([
  [{ ...out, disk: { ...out.disk, bytes: 300_400_000 } }, "the disk has 300 MB left"],
  [{ ...out, disk: { ...out.disk, inodes: 12 } }, "the disk has room for 12 more files"],
  [{ ...out, memoryBytes: 99_900_000 }, "the host has 99 MB of memory left"],
  [{ ...out, memoryBytes: -5 }, "the host has 0 MB of memory left"],
])("names the short resource of %j", async (free, words) => {
  expect(shortageOf(free, "out")).toMatchObject({ words })
  expect(await openShortage("/data", async () => free)("out")).toMatchObject({ words })
})

it("fails where the disk cannot be read", async () => {
  await expect(openShortage("/no/such/directory")("low")).rejects.toMatchObject({ code: "ENOENT" })
})
