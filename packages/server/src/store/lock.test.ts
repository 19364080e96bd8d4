import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { WireError } from "@berth/protocol/errors"
import { describe, expect, it } from "vitest"
import { openStore } from "./open.ts"
import { type Child, startChild } from "./testing/child.ts"
import { makeDataDir } from "./testing/data-dir.ts"
import { openForTest } from "./testing/open-for-test.ts"

interface Answer {
  readonly opened?: string
  readonly refused?: WireError
}

/** Starts a server process that opens the store when it is told to. */
const startServer = async (dataDir: string): Promise<Child> => {
  const child = startChild("hold-store.ts", { args: [dataDir] })
  expect(await child.next()).toBe("waiting")
  return child
}

const open = (child: Child): Promise<Answer> => {
  child.tell("open")
  return child.next()
}

const notePath = (dataDir: string): string => join(dataDir, "server.json")

describe("a data directory that a server uses", () => {
  it("refuses a second server, naming the first one's pid and since when", async () => {
    const dataDir = makeDataDir()
    const startedAt = Date.now()
    const first = await startServer(dataDir)
    expect(await open(first)).toEqual({ opened: expect.stringMatching(/^inst-/) })

    const refusal = await openStore({ dataDir }).catch((thrown: unknown) => thrown)

    expect(refusal).toMatchObject({
      code: "store.locked",
      message: expect.stringContaining(`pid ${first.pid}`),
      details: { dataDir, pid: first.pid },
    })
    const { since } = (refusal as { details: { since: string } }).details
    expect(Date.parse(since)).toBeGreaterThanOrEqual(startedAt)
    expect(Date.parse(since)).toBeLessThanOrEqual(Date.now())
  })

  it("refuses a second store in the same process, and stays locked after that", async () => {
    const dataDir = makeDataDir()
    await openForTest({ dataDir })
    const locked = { code: "store.locked", details: { pid: process.pid } }
    await expect(openStore({ dataDir })).rejects.toMatchObject(locked)

    const other = await startServer(dataDir)
    expect((await open(other)).refused).toMatchObject(locked)
  })

  it("is free when its server was killed, though its note is there", async () => {
    const dataDir = makeDataDir()
    const first = await startServer(dataDir)
    const { opened } = await open(first)
    await first.kill("SIGKILL")
    expect(existsSync(notePath(dataDir))).toBe(true)

    const store = await openForTest({ dataDir })
    expect(store.installationId).toBe(opened)
    expect(JSON.parse(readFileSync(notePath(dataDir), "utf8"))).toMatchObject({ pid: process.pid })
  })

  it("is free when its server has closed the store, and carries no note of it", async () => {
    const dataDir = makeDataDir()
    const first = await startServer(dataDir)
    await open(first)
    await first.end()
    expect(existsSync(notePath(dataDir))).toBe(false)
    await openForTest({ dataDir })
  })

  it("goes to exactly one of ten servers that start at the same moment", {
    timeout: 60_000,
  }, async () => {
    const dataDir = makeDataDir()
    const servers = await Promise.all(Array.from({ length: 10 }, () => startServer(dataDir)))

    const answers = await Promise.all(servers.map(open))

    const winners = servers.filter((_, index) => answers[index]?.opened)
    expect(winners).toHaveLength(1)
    const losers = answers.filter(({ opened }) => !opened)
    for (const { refused } of losers) {
      expect(refused).toMatchObject({ code: "store.locked", details: { pid: winners[0]?.pid } })
    }
  })
})

describe("a note that a dead server left", () => {
  const recycled = JSON.stringify({
    pid: process.pid,
    processStart: "00000000-0000-0000-0000-000000000000/1",
    since: "2020-01-01T00:00:00.000Z",
  })

  it.each([
    ["names a pid that another process has now", recycled],
    [
      "names a pid that cannot be",
      '{"pid":4194305,"processStart":"x/1","since":"2020-01-01T00:00:00Z"}',
    ],
    ["is cut off", '{"pid":'],
  ])("does not block when it %s", async (_, note) => {
    const dataDir = makeDataDir()
    writeFileSync(notePath(dataDir), note)
    await openForTest({ dataDir })
  })

  it("is never taken for the holder when its pid is another process's now", async () => {
    const dataDir = makeDataDir()
    const holder = await startServer(dataDir)
    await open(holder)
    writeFileSync(notePath(dataDir), recycled)

    const refusal = await openStore({ dataDir }).catch((thrown: unknown) => thrown)

    expect(refusal).toMatchObject({ code: "store.locked", details: { dataDir } })
    expect(refusal).not.toHaveProperty("details.pid")
    expect(refusal).not.toHaveProperty("message", expect.stringContaining(String(process.pid)))
  })

  it("gives way to the note of the holder that is being written", async () => {
    const dataDir = makeDataDir()
    const holder = await startServer(dataDir)
    await open(holder)
    const holdersNote = readFileSync(notePath(dataDir), "utf8")
    writeFileSync(notePath(dataDir), recycled)

    const refusal = openStore({ dataDir }).catch((thrown: unknown) => thrown)
    writeFileSync(notePath(dataDir), holdersNote)

    expect(await refusal).toMatchObject({ code: "store.locked", details: { pid: holder.pid } })
  })
})

describe("the lock's files", () => {
  it("are for the owner only, and the lock stays empty", async () => {
    const dataDir = makeDataDir()
    await openForTest({ dataDir })
    const modeOf = (name: string) => statSync(join(dataDir, name)).mode & 0o777
    expect(modeOf("server.lock")).toBe(0o600)
    expect(modeOf("server.json")).toBe(0o600)
    expect(statSync(join(dataDir, "server.lock")).size).toBe(0)
  })
})
