import { readFileSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { buffer } from "node:stream/consumers"
import { expect, it } from "vitest"
import { makeDir } from "../../testing/berth.ts"
import { entry, playFiles } from "../../testing/played-files.ts"
import { copyIn } from "./in.ts"
import { CopyReport } from "./report.ts"

const MIB = 1024 * 1024

/** Copies a file into a sandbox that calls `onBegin` when the upload begins. */
const copy = async (source: string, onBegin = () => {}) => {
  const got = Promise.withResolvers<{ length: string | undefined; body: Buffer }>()
  got.promise.catch(() => {})
  const sandbox = await playFiles({
    stat: (path) => entry(path),
    content: (path, response) => {
      onBegin()
      const { req: request } = response
      const length = request.headers["content-length"]
      buffer(request).then((body) => {
        got.resolve({ length, body })
        response.end(JSON.stringify(entry(path)))
      }, got.reject)
    },
  })
  using report = new CopyReport({ err: () => {}, isScreen: () => false })
  const signal = new AbortController().signal
  await copyIn(async () => sandbox, source, "copy", { signal, report })
  return await got.promise
}

const fileOf = (bytes: number): string => {
  const path = join(makeDir(), "file")
  writeFileSync(path, Buffer.alloc(bytes, "berth "))
  return path
}

it("sends a large file with its size", async () => {
  const source = fileOf(3 * MIB + 5)
  const { length, body } = await copy(source)
  expect(length).toBe(String(3 * MIB + 5))
  expect(body.equals(readFileSync(source))).toBe(true)
})

it.each([0, 5])("sends a file of %i bytes", async (bytes) => {
  expect((await copy(fileOf(bytes))).body.length).toBe(bytes)
})

it.each(["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"])(
  "sends %s, whose size is not that of its content",
  async (source) => {
    expect((await copy(source)).body.toString()).toBe(readFileSync(source, "utf8"))
  },
)

it("reports a file that becomes shorter while it is sent", async () => {
  const source = fileOf(64 * MIB)
  await expect(copy(source, () => truncateSync(source, MIB))).rejects.toMatchObject({
    code: "input.usage",
    message: `${source} became shorter while it was copied`,
  })
})
