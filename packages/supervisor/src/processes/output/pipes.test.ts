import { closeSync, fstatSync, readdirSync, readlinkSync, writeSync } from "node:fs"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { type Pipe, Pipes } from "./pipes.ts"

let directory: string
let pipes: Pipes
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "berth-pipes-test-"))
  pipes = new Pipes(directory)
})
afterEach(async () => {
  pipes.close()
  await rm(directory, { recursive: true, force: true })
})

const fdsOf = ({ readFd, writeFd }: Pipe) => [readFd, writeFd]

/** Ends of named pipes that this process has open. */
const pipesOpen = () =>
  readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).includes("berth-pipes-")
    } catch {
      return false
    }
  }).length

describe("Pipes", () => {
  it("makes pipes that carry bytes, and leave no name behind", async () => {
    const pipe = (await pipes.take(undefined)) as Pipe
    expect(await readdir(directory)).toEqual([])
    expect(fstatSync(pipe.writeFd).isFIFO()).toBe(true)
    const reader = new Socket({ fd: pipe.readFd, readable: true, writable: false })
    writeSync(pipe.writeFd, "hello")
    const [chunk] = (await reader.take(1).toArray()) as Buffer[]
    expect(String(chunk)).toBe("hello")
    closeSync(pipe.writeFd)
  })

  it("gives each caller another pipe, also when many ask at the same time", async () => {
    const taken = await Promise.all(Array.from({ length: 20 }, () => pipes.take(undefined)))
    const inodes = taken.map((pipe) => fstatSync((pipe as Pipe).readFd).ino)
    expect(new Set(inodes).size).toBe(20)
    for (const pipe of taken) for (const fd of fdsOf(pipe as Pipe)) closeSync(fd)
  })

  it("makes one batch for callers that ask at the same time", async () => {
    const before = pipesOpen()
    const taken = await Promise.all(Array.from({ length: 5 }, () => pipes.take(undefined)))
    expect(pipesOpen() - before).toBe(16)
    for (const pipe of taken) for (const fd of fdsOf(pipe as Pipe)) closeSync(fd)
  })

  it("gives undefined to every caller where no pipe can be made", async () => {
    const none = new Pipes(join(directory, "missing"))
    expect(await Promise.all([none.take(undefined), none.take(undefined)])).toEqual([
      undefined,
      undefined,
    ])
  })

  it("gives out none after it is closed", async () => {
    const taking = pipes.take(undefined)
    pipes.close()
    expect(await taking).toBeUndefined()
  })
})
