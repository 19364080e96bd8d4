import { once } from "node:events"
import { existsSync, lstatSync, rmSync, watch } from "node:fs"
import { createServer } from "node:net"
import { dirname } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { connect, get, helloTo, serve } from "./testing/supervisor.ts"

const LOOK_MS = 20

/** Resolves when a file is at the path. */
const appeared = async (path: string): Promise<void> => {
  const watcher = watch(dirname(path))
  try {
    while (!existsSync(path)) await once(watcher, "change")
  } finally {
    watcher.close()
  }
}

it("[R2.12] the bridge listens again after its socket was deleted, for its owner alone, and keeps its connections", async () => {
  const { path, sandbox } = await serve({ socketLookMs: LOOK_MS })
  const before = connect(path)
  await before.opened
  for (let round = 0; round < 3; round++) {
    rmSync(path)
    await appeared(path)
    expect(await get(path, "/health")).toMatchObject({ status: 200 })
    expect(lstatSync(path).mode & 0o777).toBe(0o600)
  }
  before.say(helloTo(sandbox))
  await before.until(() => before.received.length > 0)
  expect(before.received[0]).toMatchObject({ type: "hello" })
})

it("the bridge listens again where another socket took the place of its own", async () => {
  const { path } = await serve({ socketLookMs: LOOK_MS })
  rmSync(path)
  const other = createServer((socket) => socket.destroy())
  other.listen(path)
  onTestFinished(() => void other.close())
  await expect
    .poll(() => get(path, "/health").catch(() => undefined), { interval: LOOK_MS })
    .toMatchObject({ status: 200 })
})
