import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs"
import { rm } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { connectTo } from "@berth/bridge/address"
import { newId } from "@berth/protocol/ids"
import { SHARED } from "@berth/protocol/shared-directory"
import { expect, it, onTestFinished } from "vitest"
import { findSharedDirectories } from "./shared-directories.ts"
import { foundPlaceOfShared, moveEarlierShared, placeOfShared } from "./shared-place.ts"

const newDataDir = (): string => {
  const dataDir = mkdtempSync(join(tmpdir(), "berth-place-"))
  onTestFinished(() => rm(dataDir, { recursive: true }))
  return dataDir
}

/** Makes a shared directory where an earlier version had it. */
const makeEarlier = (dataDir: string) => {
  const sandbox = newId.sandbox()
  const directory = join(dataDir, "links", sandbox)
  mkdirSync(join(directory, "inside"), { recursive: true, mode: 0o700 })
  writeFileSync(join(directory, "token"), `token of ${sandbox}`)
  return { sandbox, inside: join(directory, "inside") }
}

it("moves the shared directories of an earlier version, and reaches the supervisors that listen in them", async () => {
  const dataDir = newDataDir()
  const { sandbox, inside } = makeEarlier(dataDir)
  const supervisor = createServer((socket) => socket.end("here"))
  onTestFinished(() => void supervisor.close())
  await new Promise<void>((resolve) => supervisor.listen(join(inside, SHARED.socket), resolve))
  expect(foundPlaceOfShared(dataDir)).toBe(join(dataDir, "links"))
  moveEarlierShared(dataDir)
  moveEarlierShared(dataDir)
  expect(readdirSync(dataDir)).toEqual(["shared"])
  expect(foundPlaceOfShared(dataDir)).toBe(placeOfShared(dataDir))
  const found = await findSharedDirectories(placeOfShared(dataDir)).find(sandbox)
  expect(found?.token).toBe(`token of ${sandbox}`)
  const socket = await connectTo({ path: found?.socket ?? "" }, AbortSignal.timeout(5_000))
  const said: Buffer[] = []
  for await (const chunk of socket) said.push(chunk)
  expect(Buffer.concat(said).toString()).toBe("here")
})

it("finishes a move that a crash cut short", () => {
  const dataDir = newDataDir()
  const first = makeEarlier(dataDir)
  const second = makeEarlier(dataDir)
  const moved = join(placeOfShared(dataDir), first.sandbox)
  mkdirSync(moved, { recursive: true })
  writeFileSync(join(moved, "token"), "moved")
  moveEarlierShared(dataDir)
  expect(existsSync(join(dataDir, "links"))).toBe(false)
  expect(readFileSync(join(moved, "token"), "utf8")).toBe("moved")
  expect(existsSync(join(placeOfShared(dataDir), second.sandbox, "token"))).toBe(true)
})

it("makes nothing where there is nothing to move", () => {
  const dataDir = newDataDir()
  moveEarlierShared(dataDir)
  expect(readdirSync(dataDir)).toEqual([])
  expect(foundPlaceOfShared(dataDir)).toBe(placeOfShared(dataDir))
})
