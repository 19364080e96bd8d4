import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync, watch } from "node:fs"
import { request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { expect, it, onTestFinished } from "vitest"

const MAIN = join(import.meta.dirname, "main.ts")

const start = async () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-supervisor-"))
  const watcher = watch(directory)
  const socket = join(directory, "socket")
  const child = spawn(process.execPath, ["--conditions=source", MAIN, socket], {
    stdio: ["ignore", "inherit", "inherit"],
  })
  const ended = once(child, "close")
  onTestFinished(async () => {
    watcher.close()
    child.kill("SIGKILL")
    await ended
    rmSync(directory, { recursive: true })
  })
  await Promise.race([once(watcher, "change"), ended])
  return { child, socket, ended }
}

const get = async (socketPath: string, path: string) => {
  const [response] = await once(request({ socketPath, path }).end(), "response")
  return { status: response.statusCode, body: await text(response) }
}

it("answers on its socket, and ends with status 0 when it is asked to", async () => {
  const { child, socket, ended } = await start()
  expect(await get(socket, "/health")).toEqual({ status: 200, body: '{"status":"ok"}' })
  expect(await get(socket, "/else")).toMatchObject({ status: 404 })
  child.kill("SIGTERM")
  expect(await ended).toEqual([0, null])
})
