import {
  copyFileSync,
  existsSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { describe, expect, it } from "vitest"
import { startChild } from "./testing/child.ts"
import { makeDataDir } from "./testing/data-dir.ts"
import { openForTest } from "./testing/open-for-test.ts"
import { workspaceSlugs } from "./testing/workspaces.ts"
import { openWitness } from "./witness.ts"

const FILES = ["berth.db", "berth.db-wal", "berth.db-shm"]

/** Writes over the files that are there, as `cp` does: each stays the same file. */
const copyOver = (from: string, to: string): void => {
  for (const name of FILES) copyFileSync(join(from, name), join(to, name))
}

/** A server that has a store open, in a process of its own. */
const startServer = async (dataDir: string) => {
  const child = startChild("keep-store.ts", { args: [dataDir] })
  expect(await child.next()).toBe("opened")
  return {
    commit: async (how: "durably" | "ordinarily", slug: string) => {
      child.tell(`${how} ${slug}`)
      expect(await child.next()).toBe(slug)
    },
    kill: () => child.kill("SIGKILL"),
    end: () => child.end(),
  }
}

const judged = async (dataDir: string) => {
  const { isRestored, lostPower, db } = await openForTest({ dataDir })
  return { isRestored, lostPower, has: await workspaceSlugs(db) }
}

describe("a server that was killed", () => {
  it("lost nothing", async () => {
    const dataDir = makeDataDir()
    const server = await startServer(dataDir)
    await server.commit("durably", "first")
    await server.commit("ordinarily", "second")
    await server.kill()
    const has = ["first", "second"]
    expect(await judged(dataDir)).toEqual({ isRestored: false, lostPower: false, has })
  })

  it("finds a copy that somebody wrote over the database, however young it is", async () => {
    const [dataDir, backup] = [makeDataDir(), makeDataDir()]
    const server = await startServer(dataDir)
    await server.commit("durably", "first")
    copyOver(dataDir, backup)
    await server.commit("durably", "second")
    await server.kill()
    copyOver(backup, dataDir)
    expect(await judged(dataDir)).toEqual({ isRestored: true, lostPower: false, has: ["first"] })
  })

  it("believes a copy that lacks only what a power loss may take, and leaps", async () => {
    const [dataDir, backup] = [makeDataDir(), makeDataDir()]
    const server = await startServer(dataDir)
    await server.commit("durably", "first")
    copyOver(dataDir, backup)
    await server.commit("ordinarily", "second")
    await server.kill()
    copyOver(backup, dataDir)
    expect(await judged(dataDir)).toEqual({ isRestored: false, lostPower: true, has: ["first"] })
  })
})

describe("a witness", () => {
  it("is gone when the server has ended in order, and so are those of data directories that are gone", async () => {
    const [dataDir, gone, memory] = [makeDataDir(), makeDataDir(), makeDataDir()]
    openWitness(gone, "inst-1", memory).note({ last: 7, durable: 5 })
    const [left = ""] = readdirSync(memory)
    const witness = openWitness(dataDir, "inst-1", memory)
    witness.note({ last: 7, durable: 5 })
    expect(readdirSync(memory)).toHaveLength(2)
    utimesSync(join(memory, left), 0, 0)
    writeFileSync(join(dataDir, "berth.db"), "")
    const next = openWitness(dataDir, "inst-1", memory)
    expect(next.found).toEqual({ last: 7, durable: 5 })
    next.remove()
    expect(readdirSync(memory)).toEqual([])
  })

  it("says nothing of another installation, nor where a link stands in its place", () => {
    const [dataDir, memory] = [makeDataDir(), makeDataDir()]
    writeFileSync(join(dataDir, "berth.db"), "")
    openWitness(dataDir, "inst-1", memory).note({ last: 7, durable: 5 })
    expect(openWitness(dataDir, "inst-2", memory).found).toBeUndefined()
    const [name = ""] = readdirSync(memory)
    rmSync(join(memory, name))
    const planted = join(memory, "planted")
    symlinkSync(planted, join(memory, name))
    openWitness(dataDir, "inst-1", memory).note({ last: 9, durable: 9 })
    expect(existsSync(planted)).toBe(false)
  })

  it("is not needed", () => {
    const witness = openWitness(makeDataDir(), "inst-1", "/nonexistent")
    witness.note({ last: 7, durable: 5 })
    witness.remove()
    expect(witness.found).toBeUndefined()
  })
})

requires("root").describe("a disk that stopped while the machine went on", () => {
  it("has lost the last events, and numbers leap", async () => {
    const wrapper = ["unshare", "--mount", "--propagation=private"]
    const child = startChild("stop-disk.ts", { args: [makeDataDir()], wrapper })
    expect(await child.next()).toEqual({ isRestored: false, lostPower: true, has: ["first"] })
    await child.rest()
  })
})
